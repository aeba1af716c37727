//! Declares the root type of a custom resource.
//!
//! The root is what kube's client needs (`Resource`) and what travels: `apiVersion`, `kind`,
//! `metadata`, `spec` and, where the kind has one, `status`. Items of a list come without
//! `apiVersion` and `kind`, so both may be missing when decoding; when present they must fit.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

/// A custom resource as it arrives, before its kind was checked.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Wire<Spec, Status> {
    api_version: Option<String>,
    kind: Option<String>,
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Spec,
    #[serde(default = "Option::default")]
    pub(crate) status: Option<Status>,
}

/// Stands in for the status of a kind that has none; any content is skipped.
#[derive(Deserialize)]
pub(crate) struct NoStatus {}

/// Declares the struct and implements `Resource`, `Serialize` and `Deserialize` for it.
macro_rules! custom_resource {
    (
        $(#[$meta:meta])*
        $name:ident {
            group: $group:literal,
            version: $version:literal,
            plural: $plural:literal,
            spec: $spec:ty,
            status: $status:ty,
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            /// Name, namespace, labels, annotations and the rest of the standard metadata.
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            /// The desired state.
            pub spec: $spec,
            /// The observed state; written by the controller only.
            pub status: Option<$status>,
        }

        custom_resource!(@resource $name, $group, $version, $plural);
        custom_resource!(@wire $name, $spec, $status, [spec, status]);

        impl $name {
            /// A new object of this kind in no namespace yet.
            pub fn new(name: &str, spec: $spec) -> Self {
                let mut object = Self { metadata: Default::default(), spec, status: None };
                object.metadata.name = Some(name.to_owned());
                object
            }
        }
    };
    (
        $(#[$meta:meta])*
        $name:ident {
            group: $group:literal,
            version: $version:literal,
            plural: $plural:literal,
            spec: $spec:ty,
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            /// Name, namespace, labels, annotations and the rest of the standard metadata.
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            /// The desired state.
            pub spec: $spec,
        }

        custom_resource!(@resource $name, $group, $version, $plural);
        custom_resource!(@wire $name, $spec, crate::resource::NoStatus, [spec]);

        impl $name {
            /// A new object of this kind in no namespace yet.
            pub fn new(name: &str, spec: $spec) -> Self {
                let mut object = Self { metadata: Default::default(), spec };
                object.metadata.name = Some(name.to_owned());
                object
            }
        }
    };
    (@resource $name:ident, $group:literal, $version:literal, $plural:literal) => {
        impl kube::Resource for $name {
            type DynamicType = ();
            type Scope = kube::core::NamespaceResourceScope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                stringify!($name).into()
            }
            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }
            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }
            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }
            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }
            fn meta_mut(
                &mut self,
            ) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
    (@wire $name:ident, $spec:ty, $status:ty, [$($part:ident),+]) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct as _;
                let mut object = serializer.serialize_struct(stringify!($name), 5)?;
                object.serialize_field("apiVersion", &<Self as kube::Resource>::api_version(&()))?;
                object.serialize_field("kind", stringify!($name))?;
                object.serialize_field("metadata", &self.metadata)?;
                $(custom_resource!(@part object, self, $part);)+
                object.end()
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
                let wire = crate::resource::Wire::<$spec, $status>::deserialize(decoder)?;
                wire.expect_kind::<Self, D::Error>()?;
                let crate::resource::Wire { metadata, $($part,)+ .. } = wire;
                Ok(Self { metadata, $($part,)+ })
            }
        }
    };
    (@part $object:ident, $self:ident, spec) => {
        $object.serialize_field("spec", &$self.spec)?;
    };
    (@part $object:ident, $self:ident, status) => {
        if let Some(status) = &$self.status {
            $object.serialize_field("status", status)?;
        }
    };
}

// === impl Wire ===

impl<Spec, Status> Wire<Spec, Status> {
    /// Refuses an object that says it is of another kind or version than `Kind`.
    pub(crate) fn expect_kind<Kind, E>(&self) -> Result<(), E>
    where
        Kind: kube::Resource<DynamicType = ()>,
        E: serde::de::Error,
    {
        let (want_version, want_kind) = (Kind::api_version(&()), Kind::kind(&()));
        let version_fits = self.api_version.as_deref().is_none_or(|have| have == want_version);
        let kind_fits = self.kind.as_deref().is_none_or(|have| have == want_kind);
        if version_fits && kind_fits {
            return Ok(());
        }
        let have_version = self.api_version.as_deref().unwrap_or_default();
        let have_kind = self.kind.as_deref().unwrap_or_default();
        Err(E::custom(format!(
            "expected {want_version} {want_kind}, found {have_version} {have_kind}"
        )))
    }
}
