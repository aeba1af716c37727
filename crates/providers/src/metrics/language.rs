//! The query language of a template, for the check of variables.

use tidegate_api::metric_template::{MetricProvider, MetricProviderType};

use super::stackdriver;
use crate::template::QueryLanguage;

/// The language that the provider reads the query of its template in.
pub fn query_language(provider: &MetricProvider) -> QueryLanguage {
    let address = provider.address.as_deref().unwrap_or_default();
    match provider.provider_type {
        MetricProviderType::Prometheus => QueryLanguage::PromQl,
        MetricProviderType::InfluxDb => QueryLanguage::Flux,
        MetricProviderType::NewRelic => QueryLanguage::Nrql,
        MetricProviderType::Graphite => QueryLanguage::Graphite,
        MetricProviderType::Dynatrace => QueryLanguage::Dynatrace,
        MetricProviderType::Splunk => QueryLanguage::SignalFlow,
        MetricProviderType::CloudWatch => QueryLanguage::CloudWatch,
        MetricProviderType::Stackdriver if stackdriver::is_promql(address) => QueryLanguage::PromQl,
        MetricProviderType::Stackdriver => QueryLanguage::Mql,
        // Tags of Datadog are not quoted; the other two are paths and parameters.
        MetricProviderType::Datadog
        | MetricProviderType::ExternalMetrics
        | MetricProviderType::Keptn
        | MetricProviderType::Other(_) => QueryLanguage::Plain,
    }
}
