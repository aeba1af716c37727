//! The value types that Kubernetes adds to CEL: URLs, addresses, networks and quantities.

use std::{any::Any, borrow::Cow, net::IpAddr, sync::LazyLock};

use cel::common::{
    types::Type,
    value::{StaticVal, Val},
};

use super::{network::Network, network::Url};
use crate::quantity::Quantity;

/// A value of one of the added types.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Extra {
    Url(Url),
    Ip(IpAddr),
    Cidr(Network),
    Quantity(Quantity),
}

static URL: LazyLock<Type> = LazyLock::new(|| Type::new_opaque_type("kubernetes.URL"));
static IP: LazyLock<Type> = LazyLock::new(|| Type::new_opaque_type("net.IP"));
static CIDR: LazyLock<Type> = LazyLock::new(|| Type::new_opaque_type("net.CIDR"));
static QUANTITY: LazyLock<Type> = LazyLock::new(|| Type::new_opaque_type("kubernetes.Quantity"));

pub(super) fn url_type() -> Type {
    Cow::Borrowed(&*URL).into_owned()
}

pub(super) fn ip_type() -> Type {
    Cow::Borrowed(&*IP).into_owned()
}

pub(super) fn cidr_type() -> Type {
    Cow::Borrowed(&*CIDR).into_owned()
}

pub(super) fn quantity_type() -> Type {
    Cow::Borrowed(&*QUANTITY).into_owned()
}

impl Val for Extra {
    fn get_type(&self) -> &Type {
        match self {
            Self::Url(_) => &URL,
            Self::Ip(_) => &IP,
            Self::Cidr(_) => &CIDR,
            Self::Quantity(_) => &QUANTITY,
        }
    }

    fn cel_type() -> &'static Type {
        // An overload is selected by the type of its variant.
        &cel::common::types::DYN_TYPE
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| self == other)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Extra {}
