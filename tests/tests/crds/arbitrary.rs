//! Strategies for every type of the API.
//!
//! [`strategy!`] builds a struct from a strategy for each of its fields. The struct is written out in full,
//! so a new field does not compile until it has a strategy here. Values stay within the schema: refusals
//! are tested with `testdata/bad`.

pub(crate) mod flagger;
pub(crate) mod game;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::{
    apis::meta::v1::{ObjectMeta, Time},
    util::intstr::IntOrString,
};
use proptest::{collection, option, prelude::*, sample};

/// Strategies as nested pairs, which unlike tuples have no limit.
macro_rules! pairs {
    () => { proptest::prelude::Just(()) };
    ($head:expr $(, $tail:expr)*) => { ($head, pairs!($($tail),*)) };
}

/// The pattern for the values of [`pairs!`].
macro_rules! pair_names {
    () => { () };
    ($head:ident $(, $tail:ident)*) => { ($head, pair_names!($($tail),*)) };
}

/// Declares a function that returns a strategy for a struct.
macro_rules! strategy {
    ($name:ident: $type:ident { $($field:ident: $strategy:expr,)* }) => {
        pub(crate) fn $name() -> proptest::prelude::BoxedStrategy<$type> {
            use proptest::prelude::Strategy as _;
            let fields = pairs!($($strategy),*);
            fields.prop_map(|pair_names!($($field),*)| $type { $($field),* }).boxed()
        }
    };
}

pub(crate) use {pair_names, pairs, strategy};

/// Any text, with the characters that YAML, JSON and quoting trip over.
pub(crate) fn text() -> BoxedStrategy<String> {
    prop_oneof![
        4 => "[a-z][a-z0-9-]{0,8}",
        1 => "[ -~äµ\\u{1f600}\n\t]{0,12}",
    ]
    .boxed()
}

/// A name that is a DNS label.
pub(crate) fn label() -> BoxedStrategy<String> {
    "[a-z]([a-z0-9-]{0,8}[a-z0-9])?".boxed()
}

/// A text of minutes or seconds.
pub(crate) fn interval() -> BoxedStrategy<String> {
    "[0-9]{1,4}[ms]([0-9]{1,2}s)?".boxed()
}

/// A duration, or nothing.
pub(crate) fn duration() -> BoxedStrategy<String> {
    prop_oneof![
        Just(String::new()),
        Just("0".to_owned()),
        "[+-]?([0-9]{1,4}(\\.[0-9]{0,3})?(ns|us|µs|ms|s|m|h)){1,3}",
    ]
    .boxed()
}

/// A time in whole seconds, which is all that is stored.
pub(crate) fn time() -> BoxedStrategy<Time> {
    let seconds = 0..4_000_000_000_i64;
    seconds.prop_map(|s| Time(k8s_openapi::jiff::Timestamp::from_second(s).unwrap())).boxed()
}

/// A number that may be whole.
pub(crate) fn fraction() -> BoxedStrategy<f64> {
    prop_oneof![(-1000..1000_i32).prop_map(f64::from), -1e6..1e6_f64].boxed()
}

/// A number or percentage of pods, at least one.
pub(crate) fn some_pods() -> BoxedStrategy<IntOrString> {
    let percent = (1..=100_u8).prop_map(|p| IntOrString::String(format!("{p}%")));
    prop_oneof![(1..1000_i32).prop_map(IntOrString::Int), percent].boxed()
}

/// A number or percentage of pods.
pub(crate) fn pods() -> BoxedStrategy<IntOrString> {
    let none = [IntOrString::Int(0), IntOrString::String("0%".to_owned())];
    prop_oneof![some_pods(), sample::select(none.to_vec())].boxed()
}

/// One of the values of an enum.
pub(crate) fn one_of<T: Clone + std::fmt::Debug + 'static>(all: &'static [T]) -> BoxedStrategy<T> {
    sample::select(all).boxed()
}

/// The value or nothing.
pub(crate) fn maybe<T: std::fmt::Debug + 'static>(
    strategy: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<Option<T>> {
    option::of(strategy).boxed()
}

/// None to three of them.
pub(crate) fn list<T: std::fmt::Debug + 'static>(
    strategy: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<Vec<T>> {
    collection::vec(strategy, 0..=3).boxed()
}

/// None to three of them, by name.
pub(crate) fn map<T: std::fmt::Debug + 'static>(
    strategy: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<BTreeMap<String, T>> {
    collection::btree_map("[a-zA-Z./-]{1,8}", strategy, 0..=3).boxed()
}

/// Texts by name.
pub(crate) fn texts() -> BoxedStrategy<BTreeMap<String, String>> {
    map(text())
}

/// The metadata of an object.
pub(crate) fn metadata() -> BoxedStrategy<ObjectMeta> {
    let fields = (label(), maybe(label()), maybe(texts()), maybe(texts()));
    let build = |(name, namespace, labels, annotations)| ObjectMeta {
        name: Some(name),
        namespace,
        labels,
        annotations,
        ..ObjectMeta::default()
    };
    fields.prop_map(build).boxed()
}
