//! Sets of paths into an object: owned, changed or removed fields.
//!
//! A [`FieldSet`] is a tree sorted by element. A node is in the set itself (`owned`), or only on
//! the way to nodes that are; other nodes do not exist, so an empty set is an empty list.
//! `fieldsV1` is the JSON form of the same tree: `{"f:spec": {"f:replicas": {}}}`, in which a node
//! with children has `".": {}` if it is in the set too.

use serde_json::{Map, Value};

use super::element::PathElement;
use crate::{patch::DEPTH_MAX, shape::Shape};

/// A set of paths. Equal sets are equal trees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSet(Vec<Node>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) element: PathElement,
    pub(super) owned: bool,
    pub(super) below: FieldSet,
}

/// A path from the root of an object to one field; printed as `.spec.containers[name="app"].image`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path(pub Vec<PathElement>);

// === impl FieldSet ===

impl FieldSet {
    #[cfg(test)]
    /// No path at all.
    pub(crate) const EMPTY: Self = Self(Vec::new());

    /// The set of these paths of plain fields, each written with dots: `metadata.name`.
    pub(crate) fn of_fields(paths: &[&str]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(&Path(path.split('.').map(PathElement::field).collect()));
        }
        set
    }

    /// A set of these nodes, in any order; empty ones are left out.
    pub(super) fn of_nodes(mut nodes: Vec<Node>) -> Self {
        nodes.retain(|node| !node.is_void());
        if !nodes.is_sorted_by(|left, right| left.element < right.element) {
            nodes.sort_by(|left, right| left.element.cmp(&right.element));
            nodes.dedup_by(|later, first| {
                let repeats = later.element == first.element;
                if repeats {
                    first.owned |= later.owned;
                    let below = std::mem::take(&mut first.below);
                    first.below = below.union(std::mem::take(&mut later.below));
                }
                repeats
            });
        }
        Self(nodes)
    }

    /// Adds `path`. The empty path is the whole object, which nobody owns.
    pub(crate) fn insert(&mut self, path: &Path) {
        let Some((last, above)) = path.0.split_last() else { return };
        let mut set = self;
        for element in above {
            set = &mut set.node_mut(element).below;
        }
        set.node_mut(last).owned = true;
    }

    #[cfg(test)]
    pub(crate) fn has(&self, path: &Path) -> bool {
        let Some((last, above)) = path.0.split_last() else { return false };
        let mut set = self;
        for element in above {
            let Some(node) = set.node(element) else { return false };
            set = &node.below;
        }
        set.node(last).is_some_and(|node| node.owned)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[cfg(test)]
    /// How many paths are in the set.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|node| usize::from(node.owned) + node.below.len()).sum()
    }

    /// All paths; those that end on one level come before those that go deeper, as Kubernetes
    /// lists conflicts.
    pub(crate) fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut paths);
        paths
    }

    #[must_use]
    pub(crate) fn union(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        let mut nodes = Vec::with_capacity(self.0.len().max(other.0.len()));
        let mut theirs = other.0.into_iter().peekable();
        for mut node in self.0 {
            while let Some(earlier) = theirs.next_if(|their| their.element < node.element) {
                nodes.push(earlier);
            }
            if let Some(their) = theirs.next_if(|their| their.element == node.element) {
                node.owned |= their.owned;
                node.below = node.below.union(their.below);
            }
            nodes.push(node);
        }
        nodes.extend(theirs);
        Self(nodes)
    }

    #[must_use]
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let mut nodes = Vec::new();
        let mut theirs = other.0.iter().peekable();
        for node in &self.0 {
            while theirs.next_if(|their| their.element < node.element).is_some() {}
            if let Some(their) = theirs.next_if(|their| their.element == node.element) {
                let owned = node.owned && their.owned;
                let below = node.below.intersection(&their.below);
                nodes.push(Node { element: node.element.clone(), owned, below });
            }
        }
        nodes.retain(|node| !node.is_void());
        Self(nodes)
    }

    /// Takes the paths of `other` out, each for itself: what is below of them stays.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.subtract_with(other, &mut |node, their| {
            node.owned &= !their.owned;
            node.below.subtract(&their.below);
        });
    }

    /// Takes the paths of `other` out together with everything below of them.
    pub(crate) fn subtract_deep(&mut self, other: &Self) {
        self.subtract_with(other, &mut |node, their| {
            if their.owned {
                node.owned = false;
                node.below = Self::default();
            } else {
                node.below.subtract_deep(&their.below);
            }
        });
    }

    #[cfg(test)]
    #[must_use]
    pub(crate) fn difference(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        rest.subtract(other);
        rest
    }

    /// The set and, for each path in it, the declared fields above it. List items and map keys
    /// above it are not added: removing something inside an item does not remove the item.
    pub(super) fn with_fields_above<S: Shape>(mut self, shape: &S) -> Self {
        for node in &mut self.0 {
            let inner = match &node.element {
                PathElement::Field(name) => {
                    node.owned |= shape.declares(name);
                    shape.field(name)
                }
                _ => shape.items(),
            };
            node.below = std::mem::take(&mut node.below).with_fields_above(&inner);
        }
        self
    }

    pub(super) fn node(&self, element: &PathElement) -> Option<&Node> {
        let at = self.0.binary_search_by(|node| node.element.cmp(element)).ok()?;
        self.0.get(at)
    }

    pub(super) fn field_node(&self, name: &str) -> Option<&Node> {
        let at = self.0.binary_search_by(|node| node.element.cmp_field(name)).ok()?;
        self.0.get(at)
    }

    /// The JSON object of `fieldsV1`.
    pub(crate) fn to_json(&self) -> Value {
        Value::Object(self.members(false))
    }

    /// Reads `fieldsV1`. Elements of kinds unknown to this version are skipped.
    pub(crate) fn from_json(fields: &Value) -> Result<Self, String> {
        // One more than paths can be long, for the empty object at the end of the longest.
        Self::read(fields, DEPTH_MAX + 1)
    }

    fn read(fields: &Value, levels: usize) -> Result<Self, String> {
        let Value::Object(members) = fields else {
            return Err("expected a map of path elements".to_owned());
        };
        let Some(levels) = levels.checked_sub(1) else {
            return Err("path elements are nested too deep".to_owned());
        };
        let mut nodes = Vec::with_capacity(members.len());
        for (text, below) in members.iter().filter(|(text, _)| *text != ".") {
            let Some(element) = PathElement::decode(text)? else { continue };
            let is_member = below.get(".").is_some();
            let below = Self::read(below, levels)?;
            nodes.push(Node { element, owned: is_member || below.is_empty(), below });
        }
        Ok(Self::of_nodes(nodes))
    }

    fn members(&self, owned: bool) -> Map<String, Value> {
        let mut members = Map::new();
        for node in &self.0 {
            members.insert(node.element.encode(), Value::Object(node.below.members(node.owned)));
        }
        // A node without children is always in the set; only one with children needs the mark.
        if owned && !members.is_empty() {
            members.insert(".".to_owned(), Value::Object(Map::new()));
        }
        members
    }

    fn node_mut(&mut self, element: &PathElement) -> &mut Node {
        let at = match self.0.binary_search_by(|node| node.element.cmp(element)) {
            Ok(at) => at,
            Err(at) => {
                let element = element.clone();
                self.0.insert(at, Node { element, owned: false, below: Self::default() });
                at
            }
        };
        self.0.get_mut(at).expect("the index was just found or filled")
    }

    fn subtract_with(&mut self, other: &Self, subtract: &mut impl FnMut(&mut Node, &Node)) {
        if other.is_empty() {
            return;
        }
        let mut theirs = other.0.iter().peekable();
        self.0.retain_mut(|node| {
            while theirs.next_if(|their| their.element < node.element).is_some() {}
            if let Some(their) = theirs.next_if(|their| their.element == node.element) {
                subtract(node, their);
            }
            !node.is_void()
        });
    }

    fn collect_paths(&self, above: &mut Vec<PathElement>, paths: &mut Vec<Path>) {
        for node in self.0.iter().filter(|node| node.owned) {
            let mut path = above.clone();
            path.push(node.element.clone());
            paths.push(Path(path));
        }
        for node in self.0.iter().filter(|node| !node.below.is_empty()) {
            above.push(node.element.clone());
            node.below.collect_paths(above, paths);
            above.pop();
        }
    }
}

impl FromIterator<Path> for FieldSet {
    fn from_iter<I: IntoIterator<Item = Path>>(paths: I) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(&path);
        }
        set
    }
}

// === impl Node ===

impl Node {
    fn is_void(&self) -> bool {
        !self.owned && self.below.is_empty()
    }
}

// === impl Path ===

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn set(paths: &[&str]) -> FieldSet {
        FieldSet::of_fields(paths)
    }

    #[test]
    fn fields_v1_says_which_nodes_are_members() {
        let json = json!({"f:a": {".": {}, "f:b": {}}, "f:c": {"f:d": {}}});
        let fields = FieldSet::from_json(&json).unwrap();
        assert_eq!(fields, set(&["a", "a.b", "c.d"]));
        assert_eq!(fields.to_json(), json);
        assert_eq!(fields.len(), 3);
    }

    #[test]
    fn fields_v1_skips_what_is_unknown_and_refuses_what_is_broken() {
        let future = json!({"f:a": {}, "q:new": {"f:b": {}}});
        assert_eq!(FieldSet::from_json(&future), Ok(set(&["a"])));
        for broken in [json!([]), json!({"f:a": 1}), json!({"x": {}}), json!({"v:{": {}})] {
            assert!(FieldSet::from_json(&broken).is_err(), "{broken}");
        }
        let mut deep = json!({});
        for _ in 0..DEPTH_MAX + 2 {
            deep = json!({"f:a": deep});
        }
        assert!(FieldSet::from_json(&deep).is_err());
    }

    #[test]
    fn subtracting_leaves_what_is_below_unless_told_otherwise() {
        let mut fields = set(&["a", "a.b", "c"]);
        fields.subtract(&set(&["a", "c"]));
        assert_eq!(fields, set(&["a.b"]));
        let mut fields = set(&["a", "a.b", "c.d", "e"]);
        fields.subtract_deep(&set(&["a", "c.d"]));
        assert_eq!(fields, set(&["e"]));
    }

    #[test]
    fn paths_of_one_level_come_before_deeper_ones() {
        let paths = set(&["b", "a.x", "a"]).paths();
        let shown: Vec<_> = paths.iter().map(ToString::to_string).collect();
        assert_eq!(shown, [".a", ".b", ".a.x"]);
    }

    fn any_element() -> impl Strategy<Value = PathElement> {
        prop_oneof![
            "[a-c.:]{0,2}".prop_map(|name| PathElement::field(&name)),
            ("[a-b]", 0_i64..3).prop_map(|(key, n)| PathElement::key(vec![(key.into(), n.into())])),
            "[a-b\"]?".prop_map(|text| PathElement::Value(Box::new(text.into()))),
            (0_i64..3).prop_map(PathElement::Index),
        ]
    }

    fn any_set() -> impl Strategy<Value = FieldSet> {
        let path = prop::collection::vec(any_element(), 1..4).prop_map(Path);
        prop::collection::vec(path, 0..8).prop_map(FieldSet::from_iter)
    }

    proptest! {
        #[test]
        fn json_and_back_is_the_same_set(fields in any_set()) {
            prop_assert_eq!(FieldSet::from_json(&fields.to_json()), Ok(fields));
        }

        #[test]
        fn sets_obey_the_laws_of_sets(a in any_set(), b in any_set()) {
            let union = a.clone().union(b.clone());
            let both = a.intersection(&b);
            prop_assert_eq!(&union, &b.clone().union(a.clone()));
            prop_assert_eq!(&both, &b.intersection(&a));
            prop_assert_eq!(union.len() + both.len(), a.len() + b.len());
            prop_assert_eq!(a.difference(&b).union(both), a.clone());
            prop_assert_eq!(union.difference(&b), a.difference(&b));
            for path in union.paths() {
                prop_assert!(a.has(&path) || b.has(&path));
            }
            let mut deep = a.clone();
            deep.subtract_deep(&b);
            prop_assert!(deep.difference(&a.difference(&b)).is_empty());
        }
    }
}
