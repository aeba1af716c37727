//! The functions available to rules: CEL's own, its string and list extensions, and those of
//! Kubernetes.

use std::{cmp::Ordering, collections::HashMap, net::IpAddr};

use cel::{
    DeclarationError, Env, ExecutionError,
    common::{
        functions::Function,
        types::{
            CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelString, DYN_TYPE, INT_TYPE,
            LIST_TYPE, STRING_TYPE, Type,
        },
        value::{CowVal, Val},
    },
    extensions,
};

use super::{
    extra::{Extra, cidr_type, ip_type, quantity_type, url_type},
    network::{self, Network, Url},
};
use crate::{quantity::Quantity, schema::pattern};

type Answer<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// The environment in which all rules are compiled and run.
pub(super) fn environment() -> Env {
    let mut env = Env::stdlib();
    env.set_error_on_duplicate_map_keys(false);
    register(&mut env).expect("no two functions have the same signature");
    env
}

fn register(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_extension(extensions::strings)?;
    env.add_extension(extensions::lists)?;
    env.add_extension(extensions::encoders)?;
    register_lists(env)?;
    register_texts(env)?;
    register_network(env)?;
    register_quantities(env)
}

/// Declares `target.name(args)` for each row.
fn members(env: &mut Env, rows: &[Member]) -> Result<(), DeclarationError> {
    for (name, target, arguments, function) in rows {
        let id = format!("k8s_{}_{name}_{}", target().name(), arguments.len());
        let arguments: Vec<Type> = arguments.iter().map(|kind| kind()).collect();
        let id = arguments.iter().fold(id, |id, kind| format!("{id}_{}", kind.name()));
        env.add_member_overload(name, &id, target(), arguments, *function)?;
    }
    Ok(())
}

/// Declares `name(args)` for each row.
fn globals(env: &mut Env, rows: &[Global]) -> Result<(), DeclarationError> {
    for (name, arguments, function) in rows {
        let arguments: Vec<Type> = arguments.iter().map(|kind| kind()).collect();
        let id = format!("k8s_{name}");
        let id = arguments.iter().fold(id, |id, kind| format!("{id}_{}", kind.name()));
        env.add_overload(name, &id, arguments, *function)?;
    }
    Ok(())
}

type Kind = fn() -> Type;
type Member = (&'static str, Kind, &'static [Kind], Function);
type Global = (&'static str, &'static [Kind], Function);

const fn list() -> Type {
    LIST_TYPE
}

const fn text() -> Type {
    STRING_TYPE
}

const fn int() -> Type {
    INT_TYPE
}

const fn any() -> Type {
    DYN_TYPE
}

fn register_lists(env: &mut Env) -> Result<(), DeclarationError> {
    members(
        env,
        &[
            ("isSorted", list, &[], |arguments| {
                let items = items(&arguments, 0)?;
                let mut sorted = true;
                for (left, right) in items.iter().zip(items.iter().skip(1)) {
                    sorted &= compare(left.as_ref(), right.as_ref())? != Ordering::Greater;
                }
                flag(sorted)
            }),
            ("sum", list, &[], |arguments| sum(&arguments)),
            ("min", list, &[], |arguments| extreme(&arguments, "min", Ordering::Less)),
            ("max", list, &[], |arguments| extreme(&arguments, "max", Ordering::Greater)),
            ("indexOf", list, &[any], |arguments| {
                let wanted = argument(&arguments, 1)?;
                let at = items(&arguments, 0)?.iter().position(|item| item.equals(wanted));
                whole(position(at))
            }),
            ("lastIndexOf", list, &[any], |arguments| {
                let wanted = argument(&arguments, 1)?;
                let at = items(&arguments, 0)?.iter().rposition(|item| item.equals(wanted));
                whole(position(at))
            }),
        ],
    )?;
    globals(
        env,
        &[
            ("sets.contains", &[list, list], |arguments| {
                flag(contains_all(items(&arguments, 0)?, items(&arguments, 1)?))
            }),
            ("sets.equivalent", &[list, list], |arguments| {
                let (left, right) = (items(&arguments, 0)?, items(&arguments, 1)?);
                flag(contains_all(left, right) && contains_all(right, left))
            }),
            ("sets.intersects", &[list, list], |arguments| {
                let (left, right) = (items(&arguments, 0)?, items(&arguments, 1)?);
                flag(right.iter().any(|item| left.iter().any(|each| each.equals(item.as_ref()))))
            }),
        ],
    )
}

fn register_texts(env: &mut Env) -> Result<(), DeclarationError> {
    members(
        env,
        &[
            ("find", text, &[text], |arguments| {
                let regex = regex(string(&arguments, 1)?)?;
                let found = regex.find(string(&arguments, 0)?);
                answer(found.map_or("", |found| found.as_str()))
            }),
            ("findAll", text, &[text], |arguments| find_all(&arguments, -1)),
            ("findAll", text, &[text, int], |arguments| {
                let limit = *downcast::<CelInt>(argument(&arguments, 2)?)?.inner();
                find_all(&arguments, limit)
            }),
            ("getScheme", url_type, &[], |arguments| answer(&url(&arguments)?.scheme)),
            ("getHost", url_type, &[], |arguments| answer(&url(&arguments)?.host)),
            ("getHostname", url_type, &[], |arguments| answer(url(&arguments)?.hostname())),
            ("getPort", url_type, &[], |arguments| answer(url(&arguments)?.port())),
            ("getEscapedPath", url_type, &[], |arguments| answer(&url(&arguments)?.path)),
            ("getQuery", url_type, &[], |arguments| query(&arguments)),
        ],
    )?;
    globals(
        env,
        &[
            ("isURL", &[text], |arguments| flag(Url::parse(string(&arguments, 0)?).is_ok())),
            ("url", &[text], |arguments| {
                let parsed = Url::parse(string(&arguments, 0)?);
                Ok(CowVal::owned(Extra::Url(parsed.map_err(|why| failed("url", why))?)))
            }),
        ],
    )
}

fn register_network(env: &mut Env) -> Result<(), DeclarationError> {
    globals(
        env,
        &[
            ("isIP", &[text], |arguments| flag(network::parse_ip(string(&arguments, 0)?).is_ok())),
            ("ip", &[text], |arguments| Ok(owned_ip(parse_ip(string(&arguments, 0)?)?))),
            ("ip.isCanonical", &[text], |arguments| {
                let written = string(&arguments, 0)?;
                flag(parse_ip(written)?.to_string() == written)
            }),
            ("string", &[ip_type], |arguments| answer(&ip(&arguments, 0)?.to_string())),
            ("isCIDR", &[text], |arguments| flag(Network::parse(string(&arguments, 0)?).is_ok())),
            ("cidr", &[text], |arguments| Ok(owned_cidr(parse_cidr(string(&arguments, 0)?)?))),
            ("string", &[cidr_type], |arguments| answer(&cidr(&arguments, 0)?.to_string())),
        ],
    )?;
    members(
        env,
        &[
            ("family", ip_type, &[], |arguments| {
                whole(if ip(&arguments, 0)?.is_ipv4() { 4 } else { 6 })
            }),
            ("isUnspecified", ip_type, &[], |arguments| flag(ip(&arguments, 0)?.is_unspecified())),
            ("isLoopback", ip_type, &[], |arguments| flag(ip(&arguments, 0)?.is_loopback())),
            ("isLinkLocalMulticast", ip_type, &[], |arguments| {
                flag(network::is_link_local_multicast(ip(&arguments, 0)?))
            }),
            ("isLinkLocalUnicast", ip_type, &[], |arguments| {
                flag(network::is_link_local(ip(&arguments, 0)?))
            }),
            ("isGlobalUnicast", ip_type, &[], |arguments| {
                flag(network::is_global_unicast(ip(&arguments, 0)?))
            }),
            ("containsIP", cidr_type, &[ip_type], |arguments| {
                flag(cidr(&arguments, 0)?.contains(ip(&arguments, 1)?))
            }),
            ("containsIP", cidr_type, &[text], |arguments| {
                flag(cidr(&arguments, 0)?.contains(parse_ip(string(&arguments, 1)?)?))
            }),
            ("containsCIDR", cidr_type, &[cidr_type], |arguments| {
                flag(cidr(&arguments, 0)?.contains_network(cidr(&arguments, 1)?))
            }),
            ("containsCIDR", cidr_type, &[text], |arguments| {
                let other = parse_cidr(string(&arguments, 1)?)?;
                flag(cidr(&arguments, 0)?.contains_network(other))
            }),
            ("ip", cidr_type, &[], |arguments| Ok(owned_ip(cidr(&arguments, 0)?.address))),
            ("prefixLength", cidr_type, &[], |arguments| {
                whole(i64::from(cidr(&arguments, 0)?.bits))
            }),
            ("masked", cidr_type, &[], |arguments| Ok(owned_cidr(cidr(&arguments, 0)?.masked()))),
        ],
    )
}

fn register_quantities(env: &mut Env) -> Result<(), DeclarationError> {
    globals(
        env,
        &[
            ("isQuantity", &[text], |arguments| {
                flag(Quantity::exact(string(&arguments, 0)?).is_some())
            }),
            ("quantity", &[text], |arguments| {
                let parsed = Quantity::exact(string(&arguments, 0)?);
                let why = "quantities must match the regular expression \
                           '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
                Ok(owned_quantity(parsed.ok_or_else(|| failed("quantity", why))?))
            }),
            ("sign", &[quantity_type], |arguments| whole(quantity(&arguments, 0)?.sign())),
        ],
    )?;
    members(
        env,
        &[
            ("isGreaterThan", quantity_type, &[quantity_type], |arguments| {
                flag(quantity(&arguments, 0)? > quantity(&arguments, 1)?)
            }),
            ("isLessThan", quantity_type, &[quantity_type], |arguments| {
                flag(quantity(&arguments, 0)? < quantity(&arguments, 1)?)
            }),
            ("compareTo", quantity_type, &[quantity_type], |arguments| {
                whole(quantity(&arguments, 0)?.cmp(&quantity(&arguments, 1)?) as i64)
            }),
            ("asApproximateFloat", quantity_type, &[], |arguments| {
                Ok(CowVal::owned(CelDouble::from(quantity(&arguments, 0)?.approximate())))
            }),
            ("asInteger", quantity_type, &[], |arguments| {
                let why = "cannot convert value to integer";
                whole(quantity(&arguments, 0)?.whole().ok_or_else(|| failed("asInteger", why))?)
            }),
            ("isInteger", quantity_type, &[], |arguments| {
                flag(quantity(&arguments, 0)?.whole().is_some())
            }),
            ("add", quantity_type, &[quantity_type], |arguments| {
                Ok(owned_quantity(quantity(&arguments, 0)?.plus(quantity(&arguments, 1)?)))
            }),
            ("add", quantity_type, &[int], |arguments| {
                Ok(owned_quantity(quantity(&arguments, 0)?.plus(counted(&arguments)?)))
            }),
            ("sub", quantity_type, &[quantity_type], |arguments| {
                Ok(owned_quantity(quantity(&arguments, 0)?.minus(quantity(&arguments, 1)?)))
            }),
            ("sub", quantity_type, &[int], |arguments| {
                Ok(owned_quantity(quantity(&arguments, 0)?.minus(counted(&arguments)?)))
            }),
        ],
    )
}

fn sum<'b, 'v>(arguments: &[CowVal<'b, 'v>]) -> Answer<'b, 'v> {
    let mut items = items(arguments, 0)?.iter();
    let Some(first) = items.next() else { return whole(0) };
    let mut total = first.clone();
    for item in items {
        let adder = total.as_adder().ok_or_else(|| overload("sum"))?;
        total = adder.add(item.as_ref())?.into_owned();
    }
    Ok(CowVal::Owned(total))
}

fn extreme<'b, 'v>(arguments: &[CowVal<'b, 'v>], name: &str, wanted: Ordering) -> Answer<'b, 'v> {
    let mut items = items(arguments, 0)?.iter();
    let first = items.next();
    let mut best = first.ok_or_else(|| failed(name, format!("{name} called on empty list")))?;
    for item in items {
        if compare(item.as_ref(), best.as_ref())? == wanted {
            best = item;
        }
    }
    Ok(CowVal::Owned(best.clone()))
}

fn find_all<'b, 'v>(arguments: &[CowVal<'b, 'v>], limit: i64) -> Answer<'b, 'v> {
    let regex = regex(string(arguments, 1)?)?;
    // A negative limit means no limit.
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let found = regex.find_iter(string(arguments, 0)?).take(limit);
    let texts: Vec<_> = found.map(|found| boxed_text(found.as_str().to_owned())).collect();
    Ok(CowVal::owned(CelList::from(texts)))
}

fn query<'b, 'v>(arguments: &[CowVal<'b, 'v>]) -> Answer<'b, 'v> {
    let mut values: HashMap<String, Vec<Box<dyn Val + 'v>>> = HashMap::new();
    for (key, value) in url(arguments)?.query() {
        values.entry(key).or_default().push(boxed_text(value));
    }
    let members = values.into_iter().map(|(key, texts)| {
        let list: Box<dyn Val + 'v> = Box::new(CelList::from(texts));
        (CelMapKey::from(key), list)
    });
    Ok(CowVal::owned(CelMap::from(members.collect::<HashMap<_, _>>())))
}

fn contains_all<'v>(set: &[Box<dyn Val + 'v>], wanted: &[Box<dyn Val + 'v>]) -> bool {
    wanted.iter().all(|item| set.iter().any(|each| each.equals(item.as_ref())))
}

fn compare(left: &dyn Val, right: &dyn Val) -> Result<Ordering, ExecutionError> {
    left.as_comparer().ok_or_else(|| overload("compare"))?.compare(right)
}

fn argument<'a, 'v>(
    arguments: &'a [CowVal<'_, 'v>],
    at: usize,
) -> Result<&'a (dyn Val + 'v), ExecutionError> {
    let missing = || ExecutionError::invalid_argument_count(at + 1, arguments.len());
    arguments.get(at).map(AsRef::as_ref).ok_or_else(missing)
}

fn downcast<'a, 'v, T: cel::common::value::FromVal<'a, 'v>>(
    value: &'a (dyn Val + 'v),
) -> Result<&'a T, ExecutionError> {
    value.downcast_ref::<T>().ok_or_else(|| overload(value.get_type().name()))
}

fn items<'a, 'v>(
    arguments: &'a [CowVal<'_, 'v>],
    at: usize,
) -> Result<&'a [Box<dyn Val + 'v>], ExecutionError> {
    Ok(downcast::<CelList<'v>>(argument(arguments, at)?)?.inner())
}

fn string<'a>(arguments: &'a [CowVal<'_, '_>], at: usize) -> Result<&'a str, ExecutionError> {
    Ok(downcast::<CelString<'_>>(argument(arguments, at)?)?.inner())
}

fn extra<'a>(arguments: &'a [CowVal<'_, '_>], at: usize) -> Result<&'a Extra, ExecutionError> {
    downcast(argument(arguments, at)?)
}

fn url<'a>(arguments: &'a [CowVal<'_, '_>]) -> Result<&'a Url, ExecutionError> {
    match extra(arguments, 0)? {
        Extra::Url(url) => Ok(url),
        _ => Err(overload("url")),
    }
}

fn ip(arguments: &[CowVal<'_, '_>], at: usize) -> Result<IpAddr, ExecutionError> {
    match extra(arguments, at)? {
        Extra::Ip(address) => Ok(*address),
        _ => Err(overload("ip")),
    }
}

fn cidr(arguments: &[CowVal<'_, '_>], at: usize) -> Result<Network, ExecutionError> {
    match extra(arguments, at)? {
        Extra::Cidr(network) => Ok(*network),
        _ => Err(overload("cidr")),
    }
}

fn quantity(arguments: &[CowVal<'_, '_>], at: usize) -> Result<Quantity, ExecutionError> {
    match extra(arguments, at)? {
        Extra::Quantity(quantity) => Ok(*quantity),
        _ => Err(overload("quantity")),
    }
}

fn counted(arguments: &[CowVal<'_, '_>]) -> Result<Quantity, ExecutionError> {
    Ok(Quantity::from_whole(*downcast::<CelInt>(argument(arguments, 1)?)?.inner()))
}

fn parse_ip(text: &str) -> Result<IpAddr, ExecutionError> {
    network::parse_ip(text).map_err(|why| failed("ip", why))
}

fn parse_cidr(text: &str) -> Result<Network, ExecutionError> {
    Network::parse(text).map_err(|why| failed("cidr", why))
}

fn regex(source: &str) -> Result<regex::Regex, ExecutionError> {
    pattern::compile(source).map_err(|why| failed("find", format!("Illegal regex: {why}")))
}

fn failed(function: &str, why: impl ToString) -> ExecutionError {
    ExecutionError::function_error(function, why)
}

fn overload(function: &str) -> ExecutionError {
    ExecutionError::no_such_overload(function, Vec::new())
}

fn position(at: Option<usize>) -> i64 {
    at.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1)
}

fn boxed_text<'v>(text: String) -> Box<dyn Val + 'v> {
    Box::new(CelString::from(text))
}

#[expect(clippy::unnecessary_wraps, reason = "it ends functions that can fail")]
fn flag<'b, 'v>(value: bool) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelBool::from(value)))
}

#[expect(clippy::unnecessary_wraps, reason = "it ends functions that can fail")]
fn whole<'b, 'v>(value: i64) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelInt::from(value)))
}

#[expect(clippy::unnecessary_wraps, reason = "it ends functions that can fail")]
fn answer<'b, 'v>(text: &str) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelString::from(text.to_owned())))
}

fn owned_ip<'b, 'v>(address: IpAddr) -> CowVal<'b, 'v> {
    CowVal::owned(Extra::Ip(address))
}

fn owned_cidr<'b, 'v>(network: Network) -> CowVal<'b, 'v> {
    CowVal::owned(Extra::Cidr(network))
}

fn owned_quantity<'b, 'v>(quantity: Quantity) -> CowVal<'b, 'v> {
    CowVal::owned(Extra::Quantity(quantity))
}
