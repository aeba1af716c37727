//! Parses the type table. The head of `data/builtin-types.txt` explains the format.
//!
//! The text is generated and embedded, so an invalid line is a bug in the generator: it panics at
//! first use, and in every test.

use std::collections::HashMap;

use super::{
    Field, FieldType, Inlined, JSON_SCHEMA_PROPS, ListFacts, Omit, PatchFacts, TypeDef, TypeId,
    TypeTable, WireMember,
};

pub(super) fn table(text: &'static str) -> TypeTable {
    let heads = text.lines().filter_map(|line| line.strip_prefix("type "));
    let by_name: HashMap<_, _> =
        heads.enumerate().map(|(index, head)| (first_word(head), TypeId(index))).collect();
    let mut types: Vec<TypeDef> = Vec::with_capacity(by_name.len());
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(head) = line.strip_prefix("type ") {
            types.push(head_of(head));
        } else {
            let owner = types.last_mut().expect("fields follow the head of their type");
            add_member(owner, line, &by_name);
        }
    }
    let mut by_kind = HashMap::new();
    for (index, definition) in types.iter_mut().enumerate() {
        definition.wire.sort_unstable_by_key(|(number, _)| *number);
        debug_assert!(definition.fields.is_sorted_by_key(|field| field.name));
        by_kind.extend(definition.kinds.iter().map(|&kind| (kind, TypeId(index))));
    }
    let json_schema_props = by_name[JSON_SCHEMA_PROPS];
    TypeTable { types, by_name, by_kind, json_schema_props }
}

fn first_word(line: &str) -> &str {
    line.split(' ').next().unwrap_or(line)
}

fn head_of(head: &'static str) -> TypeDef {
    let mut words = head.split(' ');
    let name = words.next().unwrap_or(head);
    let (mut atomic, mut kinds) = (false, Vec::new());
    while let Some(word) = words.next() {
        match (word, words.by_ref()) {
            ("atomic", _) => atomic = true,
            (_, rest) => kinds.extend(rest.next().zip(rest.next())),
        }
    }
    TypeDef { name, atomic, kinds, fields: Vec::new(), inlined: Vec::new(), wire: Vec::new() }
}

fn add_member(owner: &mut TypeDef, line: &'static str, by_name: &HashMap<&str, TypeId>) {
    let mut words = line.trim_start().split(' ');
    let (Some(name), Some(kind), Some(number)) = (words.next(), words.next(), words.next()) else {
        return;
    };
    let number = number.parse::<u32>().ok();
    if name == "inline" {
        let number = number.expect("an inlined message has a number");
        owner.wire.push((number, WireMember::Inlined(owner.inlined.len())));
        owner.inlined.push(Inlined { target: by_name[kind] });
        return;
    }
    let mut field = Field {
        name,
        kind: field_type(kind, by_name),
        required: false,
        omit: Omit::Never,
        default: None,
        list: None,
        atomic_map: false,
        patch: None,
    };
    for flag in words {
        add_flag(&mut field, flag);
    }
    if let Some(number) = number {
        owner.wire.push((number, WireMember::Field(owner.fields.len())));
    }
    owner.fields.push(field);
}

fn field_type(word: &str, by_name: &HashMap<&str, TypeId>) -> FieldType {
    let prefixed = |prefix, wrap: fn(Box<FieldType>) -> FieldType| {
        word.strip_prefix(prefix).map(|rest| wrap(Box::new(field_type(rest, by_name))))
    };
    let composed = prefixed("*", FieldType::Pointer)
        .or_else(|| prefixed("[]", FieldType::List))
        .or_else(|| prefixed("<>", FieldType::Wrapped))
        .or_else(|| prefixed("{}", FieldType::Map));
    composed.unwrap_or_else(|| match word {
        "string" => FieldType::String,
        "int32" => FieldType::Int32,
        "int64" => FieldType::Int64,
        "bool" => FieldType::Bool,
        "double" => FieldType::Double,
        "bytes" => FieldType::Bytes,
        "quantity" => FieldType::Quantity,
        "intOrString" => FieldType::IntOrString,
        "time" => FieldType::Time,
        "microTime" => FieldType::MicroTime,
        "raw" => FieldType::Raw,
        "json" => FieldType::Json,
        "fieldsV1" => FieldType::FieldsV1,
        "schemaOrArray" => FieldType::SchemaOrArray,
        "schemaOrBool" => FieldType::SchemaOrBool,
        "schemaOrStrings" => FieldType::SchemaOrStrings,
        name => FieldType::Struct(by_name[name]),
    })
}

fn add_flag(field: &mut Field, flag: &'static str) {
    match flag.split_once('=') {
        None => match flag {
            "required" => field.required = true,
            "omitempty" => field.omit = Omit::Empty,
            "omitzero" => field.omit = Omit::Zero,
            other => unreachable!("the generator writes no flag {other}"),
        },
        Some(("default", json)) => {
            field.default = Some(serde_json::from_str(json).expect("defaults are JSON"));
        }
        Some(("list", facts)) => field.list = Some(list_facts(facts)),
        Some(("map", _)) => field.atomic_map = true,
        Some((_, facts)) => {
            let (strategy, key) = facts.split_once(':').unzip();
            let strategy = strategy.unwrap_or(facts);
            let merge = strategy.split(',').any(|word| word == "merge");
            let retain_keys = strategy.split(',').any(|word| word == "retainKeys");
            field.patch = Some(PatchFacts { merge, retain_keys, key });
        }
    }
}

fn list_facts(facts: &'static str) -> ListFacts {
    match facts.split_once(':') {
        Some((_, keys)) => ListFacts::Map(keys.split(',').collect()),
        None if facts == "set" => ListFacts::Set,
        None => ListFacts::Atomic,
    }
}
