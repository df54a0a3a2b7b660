//! Severity of the log, as the original spells it, and the form of its lines.
//!
//! Owns: the names and their order. Leaves to others: the log itself (`telemetry::logging`).

/// Severity threshold of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// The default.
    #[default]
    Info,
    /// States that last.
    Warn,
    /// Failures only.
    Error,
}

impl LogLevel {
    /// The level of this name, as the original spells it.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "debug" => Some(Self::Debug),
            "info" => Some(Self::Info),
            "warn" => Some(Self::Warn),
            "error" => Some(Self::Error),
            _ => None,
        }
    }

    /// Its name and itself, for tables of words.
    pub const fn word(self) -> (&'static str, Self) {
        (self.as_str(), self)
    }

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// Form of the log's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `TIME LEVEL [nvpair-proxy] text key=value`.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// The form of this name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Text, Self::Json]
            .into_iter()
            .find(|form| form.as_str() == name)
    }

    /// Its name and itself, for tables of words.
    pub const fn word(self) -> (&'static str, Self) {
        (self.as_str(), self)
    }

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_exact_and_come_back() {
        for level in [
            LogLevel::Debug,
            LogLevel::Info,
            LogLevel::Warn,
            LogLevel::Error,
        ] {
            assert_eq!(LogLevel::parse(level.as_str()), Some(level));
        }
        for bad in ["INFO", "trace", "", "bogus"] {
            assert_eq!(LogLevel::parse(bad), None, "{bad:?}");
        }
    }
}
