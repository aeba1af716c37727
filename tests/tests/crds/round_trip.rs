//! Random objects of every kind, made from the types, against the schemas.
//!
//! A field that a type has and a schema lacks would be dropped by the API server without a word; a bound
//! that a type's own values break would refuse a write of the controller. Both fail here.

use std::sync::LazyLock;

use proptest::{prelude::*, test_runner::TestCaseResult};
use serde_json::Value;
use tidegate_api::{
    AlertProvider, Canary, GameDeployment, GameStatefulSet, HookRun, HookTemplate, MetricTemplate,
};

use crate::{
    arbitrary::{flagger, game},
    corpus::Kinds,
};

static KINDS: LazyLock<Kinds> = LazyLock::new(Kinds::compile);

/// Declares a test that objects of a kind pass pruning, defaulting, validation and decoding, and
/// come out as they went in but for the defaults that were stored.
macro_rules! round_trip {
    ($($test:ident: $strategy:expr => $kind:ident,)+) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(64))]
            $(
                #[test]
                fn $test(object in $strategy) {
                    let sent = serde_json::to_value(&object).unwrap();
                    let stored = store(&sent)?;
                    prop_assert_eq!(&serde_json::from_value::<$kind>(sent).unwrap(), &object);
                    let read: $kind = serde_json::from_value(stored.clone()).unwrap();
                    prop_assert_eq!(serde_json::to_value(&read).unwrap(), stored);
                }
            )+
        }
    };
}

round_trip! {
    canaries_survive_storage: flagger::canary() => Canary,
    metric_templates_survive_storage: flagger::metric_template() => MetricTemplate,
    alert_providers_survive_storage: flagger::alert_provider() => AlertProvider,
    game_deployments_survive_storage: game::game_deployment() => GameDeployment,
    game_stateful_sets_survive_storage: game::game_stateful_set() => GameStatefulSet,
    hook_templates_survive_storage: game::hook_template() => HookTemplate,
    hook_runs_survive_storage: game::hook_run() => HookRun,
}

/// The object as the API server would store it. Nothing may be dropped, refused or lost.
fn store(sent: &Value) -> Result<Value, TestCaseError> {
    let (stored, dropped) = KINDS.stored(sent);
    prop_assert_eq!(dropped, Vec::<String>::new());
    prop_assert_eq!(KINDS.refusals(&stored, None), Vec::<String>::new());
    nothing_is_lost(sent, &stored)?;
    Ok(stored)
}

/// Every member of `sent` is in `stored` with its value; `stored` may have more.
fn nothing_is_lost(sent: &Value, stored: &Value) -> TestCaseResult {
    match (sent, stored) {
        (Value::Object(sent), Value::Object(stored)) => {
            for (key, value) in sent {
                prop_assert!(stored.contains_key(key), "{} was lost", key);
                nothing_is_lost(value, &stored[key])?;
            }
        }
        (Value::Array(sent), Value::Array(stored)) => {
            prop_assert_eq!(sent.len(), stored.len());
            for (sent, stored) in sent.iter().zip(stored) {
                nothing_is_lost(sent, stored)?;
            }
        }
        (sent, stored) => prop_assert_eq!(sent, stored),
    }
    Ok(())
}
