//! The path of a value during a walk, as a linked list on the stack.
//!
//! No allocation happens until an error needs the text. Kubernetes has two spellings:
//! `spec.labels.app` inside OpenAPI messages, `spec.labels[app]` everywhere else.

use std::fmt::Write as _;

/// One step of a path; the root has no parent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Path<'a> {
    Root,
    /// A declared field of an object.
    Field(&'a Path<'a>, &'a str),
    /// A member of a map.
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    pub(super) const fn field(&'a self, name: &'a str) -> Self {
        Self::Field(self, name)
    }

    pub(super) const fn key(&'a self, key: &'a str) -> Self {
        Self::Key(self, key)
    }

    pub(super) const fn index(&'a self, index: usize) -> Self {
        Self::Index(self, index)
    }

    /// `spec.labels.app`, empty for the root.
    pub(super) fn dotted(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, false);
        text
    }

    /// `spec.labels[app]`, and `<nil>` for the root, as Go prints an empty path.
    pub(super) fn bracketed(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, true);
        if text.is_empty() { "<nil>".to_owned() } else { text }
    }

    fn write(&self, text: &mut String, brackets: bool) {
        match self {
            Self::Root => {}
            Self::Key(parent, key) if brackets => {
                parent.write(text, brackets);
                let _ = write!(text, "[{key}]");
            }
            Self::Field(parent, name) | Self::Key(parent, name) => {
                parent.write(text, brackets);
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(name);
            }
            Self::Index(parent, index) => {
                parent.write(text, brackets);
                let _ = write!(text, "[{index}]");
            }
        }
    }
}
