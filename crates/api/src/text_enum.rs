//! Declares enums that travel as fixed texts.
//!
//! `closed` enums refuse to decode any other text, so one bad object is one decode error. `open`
//! enums keep an unknown text in a variant of their own: the schema does not allow it, but an
//! object stored under another schema still decodes, and its reader can name the value.

/// Declares an enum, its texts, and its serde and schema implementations.
macro_rules! text_enum {
    (
        $(#[$meta:meta])*
        closed $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)+ }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$variant_meta])* #[serde(rename = $text)] $variant,)+
        }

        impl $name {
            /// Every value, in the order of the schema.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The text this value is written as.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        text_enum!(@common $name, $($text),+);
    };
    (
        $(#[$meta:meta])*
        open $name:ident ($(#[$other_meta:meta])* $other:ident) {
            $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$variant_meta])* #[serde(rename = $text)] $variant,)+
            $(#[$other_meta])* #[serde(untagged)] $other(String),
        }

        impl $name {
            /// Every value the schema allows, in its order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The text this value is written as.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::$other(text) => text,
                }
            }
        }

        text_enum!(@common $name, $($text),+);
    };
    (@common $name:ident, $($text:literal),+) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": [$($text),+] })
            }
        }
    };
}
