//! The protobuf wire format: tags, varints and lengths.

/// Reads the fields of one message. Never reads past its end.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

/// A field's undecoded value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Payload<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            out.push(low & 0x7f);
            return;
        }
        out.push(low | 0x80);
    }
}

pub(crate) fn put_number(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, u64::from(number) << 3);
    put_varint(out, value);
}

pub(crate) fn put_fixed64(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, u64::from(number) << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

/// A string, bytes or a message.
pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_varint(out, u64::from(number) << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn unexpected_end() -> String {
    "unexpected EOF".to_owned()
}

// === impl Reader ===

impl<'a> Reader<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// The next field's number and value, or `None` at the end of the message.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Payload<'a>)>, String> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0);
        let number = number
            .ok_or_else(|| format!("proto: illegal tag {} (wire type {})", tag >> 3, tag & 7))?;
        let payload = match tag & 7 {
            0 => Payload::Varint(self.varint()?),
            1 => Payload::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| unexpected_end())?;
                Payload::Bytes(self.take(length)?)
            }
            5 => {
                self.array::<4>()?;
                Payload::Fixed32
            }
            other => return Err(format!("proto: illegal wireType {other}")),
        };
        Ok(Some((number, payload)))
    }

    pub(super) fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("proto: integer overflow".to_owned())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(unexpected_end)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(unexpected_end)?;
        self.rest = rest;
        Ok(*taken)
    }
}

// === impl Payload ===

impl<'a> Payload<'a> {
    pub(super) fn bytes(self) -> Result<&'a [u8], String> {
        if let Self::Bytes(bytes) = self { Ok(bytes) } else { Err(self.unexpected()) }
    }

    /// Go strings may hold any bytes; JSON gets the replacement character for invalid ones.
    pub(super) fn text(self) -> Result<String, String> {
        Ok(String::from_utf8_lossy(self.bytes()?).into_owned())
    }

    pub(super) fn varint(self) -> Result<u64, String> {
        if let Self::Varint(value) = self { Ok(value) } else { Err(self.unexpected()) }
    }

    pub(super) fn fixed64(self) -> Result<u64, String> {
        if let Self::Fixed64(value) = self { Ok(value) } else { Err(self.unexpected()) }
    }

    fn unexpected(self) -> String {
        let kind = match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Fixed32 => 5,
        };
        format!("proto: wrong wireType = {kind}")
    }
}
