//! The registry of served resources: the built-in ones, and one per served version of each CRD.
//!
//! A [`Registry`] is an immutable snapshot; a changed CRD makes a new one. A request keeps the
//! snapshot it started with, so it holds no lock.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use crate::{
    crd::{Crd, CrdVersion, Scope},
    store::TableKey,
};

mod builtin;

/// One resource at one version, as discovery shows it.
#[derive(Debug, Clone)]
pub struct ResourceDef {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub list_kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    /// `status`, `scale`, `log`, ...
    pub subresources: Vec<String>,
    /// The table of its objects. Versions of one kind share it, as do both kinds of Event.
    pub table: TableKey,
    /// The schema changed after objects may have been written: its defaults are applied on reads.
    pub defaults_on_read: bool,
    pub backing: Backing,
}

/// Implementation of a resource.
#[derive(Debug, Clone)]
pub enum Backing {
    /// The type table and the built-in strategies.
    Builtin,
    /// Access and token reviews: answered at once, never stored.
    Review,
    /// A version of a CRD.
    Custom(CustomVersion),
}

/// A served version of a CRD; dereferences to its [`CrdVersion`].
#[derive(Debug, Clone)]
pub struct CustomVersion {
    pub crd: Arc<Crd>,
    index: usize,
}

/// A snapshot of all resources.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    /// Groups in discovery order, each with its versions, preferred first.
    groups: Vec<Group>,
    by_path: BTreeMap<(String, String, String), Arc<ResourceDef>>,
}

/// An API group and its versions.
#[derive(Debug, Clone)]
pub struct Group {
    pub name: String,
    pub versions: Vec<Version>,
}

/// A group-version and its resources, ordered by plural.
#[derive(Debug, Clone)]
pub struct Version {
    pub name: String,
    pub resources: Vec<Arc<ResourceDef>>,
}

// === impl ResourceDef ===

impl ResourceDef {
    /// `apps/v1`, or `v1` for the core group.
    pub fn api_version(&self) -> String {
        group_version(&self.group, &self.version)
    }

    pub fn has(&self, subresource: &str) -> bool {
        self.subresources.iter().any(|name| name == subresource)
    }

    pub fn is_custom(&self) -> bool {
        matches!(self.backing, Backing::Custom(_))
    }

    pub fn is_review(&self) -> bool {
        matches!(self.backing, Backing::Review) || self.plural == "bindings"
    }

    pub fn custom(&self) -> Option<(&Crd, &CrdVersion)> {
        match &self.backing {
            Backing::Custom(custom) => Some((&custom.crd, custom)),
            Backing::Builtin | Backing::Review => None,
        }
    }

    pub fn verbs(&self) -> &'static [&'static str] {
        if self.is_review() {
            &["create"]
        } else if self.plural == "namespaces" && self.group.is_empty() {
            // As in Kubernetes, namespaces have no `deletecollection`.
            &["create", "delete", "get", "list", "patch", "update", "watch"]
        } else {
            &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
        }
    }

    /// The verbs a subresource answers to.
    pub fn subresource_verbs(subresource: &str) -> &'static [&'static str] {
        match subresource {
            "log" => &["get"],
            "binding" | "eviction" | "token" => &["create"],
            "finalize" => &["update"],
            _ => &["get", "patch", "update"],
        }
    }

    /// Kind, group and version of a subresource's body, where they differ from the parent's.
    pub fn subresource_kind(&self, subresource: &str) -> (&str, &str, &str) {
        match subresource {
            "scale" => ("autoscaling", "v1", "Scale"),
            "eviction" => ("policy", "v1", "Eviction"),
            "binding" => ("", "v1", "Binding"),
            "token" => ("authentication.k8s.io", "v1", "TokenRequest"),
            _ => (&self.group, &self.version, &self.kind),
        }
    }
}

// === impl CustomVersion ===

impl std::ops::Deref for CustomVersion {
    type Target = CrdVersion;

    fn deref(&self) -> &CrdVersion {
        self.crd.versions.get(self.index).expect("the index was taken from this very list")
    }
}

/// `apps/v1`, or `v1` for the core group.
pub(crate) fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

// === impl Registry ===

impl Registry {
    /// The built-in resources alone.
    pub fn builtin() -> Self {
        static BUILTIN: LazyLock<Registry> = LazyLock::new(|| {
            let mut registry = Registry::default();
            for def in builtin::resources() {
                registry.add(def);
            }
            registry
        });
        BUILTIN.clone()
    }

    /// The built-in resources and those of `crds`. A CRD cannot shadow a built-in resource. The
    /// flag of a CRD is true if it was changed after its creation.
    pub fn with_crds(crds: &[(Arc<Crd>, bool)]) -> Self {
        let mut registry = Self::builtin();
        for (crd, was_changed) in crds {
            for (index, version) in crd.versions.iter().enumerate() {
                if version.served {
                    let mut def = custom(crd, index, version);
                    def.defaults_on_read = *was_changed;
                    registry.add(def);
                }
            }
        }
        for group in &mut registry.groups {
            group.versions.sort_by_key(|version| Reverse(version_priority(&version.name)));
        }
        registry
    }

    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    pub fn version(&self, group: &str, version: &str) -> Option<&Version> {
        self.group(group)?.versions.iter().find(|found| found.name == version)
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<ResourceDef>> {
        self.by_path.get(&(group.into(), version.into(), plural.into())).cloned()
    }

    /// The resource of objects with this `apiVersion` and `kind`.
    pub fn find_kind(&self, api_version: &str, kind: &str) -> Option<Arc<ResourceDef>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resources = &self.version(group, version)?.resources;
        resources.iter().find(|def| def.kind == kind).cloned()
    }

    /// The preferred version of a resource.
    pub fn preferred(&self, group: &str, plural: &str) -> Option<Arc<ResourceDef>> {
        let versions = &self.group(group)?.versions;
        versions.iter().find_map(|version| self.find(group, &version.name, plural))
    }

    /// One definition per stored kind.
    pub fn stored(&self) -> impl Iterator<Item = &Arc<ResourceDef>> {
        let own = |def: &&Arc<ResourceDef>| !def.is_review() && *def.table.group == *def.group;
        let mut seen = std::collections::BTreeSet::new();
        let all = self.groups.iter().flat_map(|group| &group.versions);
        all.flat_map(|version| &version.resources)
            .filter(own)
            .filter(move |def| seen.insert(def.table.clone()))
    }

    fn add(&mut self, def: ResourceDef) {
        let path = (def.group.clone(), def.version.clone(), def.plural.clone());
        if self.by_path.contains_key(&path) {
            return;
        }
        let def = Arc::new(def);
        self.by_path.insert(path, Arc::clone(&def));
        let index = self.groups.iter().position(|group| group.name == def.group);
        let index = index.unwrap_or_else(|| {
            self.groups.push(Group { name: def.group.clone(), versions: Vec::new() });
            self.groups.len() - 1
        });
        let Some(group) = self.groups.get_mut(index) else { return };
        match group.versions.iter_mut().find(|version| version.name == def.version) {
            Some(version) => version.resources.push(def),
            None => {
                group.versions.push(Version { name: def.version.clone(), resources: vec![def] });
            }
        }
    }
}

fn custom(crd: &Arc<Crd>, index: usize, version: &CrdVersion) -> ResourceDef {
    let names = &crd.names;
    let mut subresources = Vec::new();
    if version.status_subresource {
        subresources.push("status".to_owned());
    }
    if version.scale.is_some() {
        subresources.push("scale".to_owned());
    }
    ResourceDef {
        group: crd.group.clone(),
        version: version.name.clone(),
        kind: names.kind.clone(),
        list_kind: names.list_kind.clone(),
        plural: names.plural.clone(),
        singular: names.singular.clone(),
        short_names: names.short_names.clone(),
        categories: names.categories.clone(),
        namespaced: crd.scope == Scope::Namespaced,
        subresources,
        table: TableKey::new(&crd.group, &names.plural),
        defaults_on_read: false,
        backing: Backing::Custom(CustomVersion { crd: Arc::clone(crd), index }),
    }
}

/// Orders versions as Kubernetes does: `v2` before `v1`, stable before beta before alpha.
pub(crate) fn version_priority(name: &str) -> (u8, u64, u64) {
    let parse = || -> Option<(u8, u64, u64)> {
        let rest = name.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (major, stage) = rest.split_at(digits);
        let major = major.parse().ok()?;
        let minor = |text: &str| if text.is_empty() { Some(0) } else { text.parse().ok() };
        if stage.is_empty() {
            Some((3, major, 0))
        } else if let Some(beta) = stage.strip_prefix("beta") {
            Some((2, major, minor(beta)?))
        } else {
            Some((1, major, minor(stage.strip_prefix("alpha")?)?))
        }
    };
    parse().unwrap_or((0, 0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_from_the_most_to_the_least_stable() {
        let mut names = ["v1alpha1", "v2", "v1beta2", "v1", "v1beta1", "foo"];
        names.sort_by_key(|name| Reverse(version_priority(name)));
        assert_eq!(names, ["v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]);
    }

    #[test]
    fn both_kinds_of_event_share_one_table() {
        let registry = Registry::builtin();
        let core = registry.find("", "v1", "events").unwrap();
        let new = registry.find("events.k8s.io", "v1", "events").unwrap();
        assert_eq!(core.table, new.table);
        assert_eq!(registry.stored().filter(|def| def.plural == "events").count(), 1);
        assert_eq!(
            registry.preferred("autoscaling", "horizontalpodautoscalers").unwrap().version,
            "v2"
        );
    }
}
