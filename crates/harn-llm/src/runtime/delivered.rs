//! Text that was delivered to a listener and cannot be retracted when the reply restarts.

use crate::error::{Category, LlmError};

/// The text delivered so far.
#[derive(Default)]
pub(super) struct Delivered {
    text: String,
    /// While a restarted reply repeats the delivered text: the number of bytes repeated so far.
    repeated: Option<usize>,
    differs: bool,
}

impl Delivered {
    /// Notes that the reply restarts.
    pub(super) fn restart(&mut self) {
        self.repeated = (!self.text.is_empty()).then_some(0);
    }

    /// Returns the part of a chunk that was not delivered before.
    pub(super) fn fresh(&mut self, piece: String) -> Option<String> {
        if self.differs {
            return None;
        }
        let Some(at) = self.repeated else {
            self.text.push_str(&piece);
            return Some(piece);
        };
        let expected = &self.text[at..];
        if let Some(fresh) = piece.strip_prefix(expected) {
            self.repeated = None;
            let fresh = fresh.to_owned();
            self.text.push_str(&fresh);
            return Some(fresh).filter(|fresh| !fresh.is_empty());
        }
        if expected.starts_with(&piece) {
            self.repeated = Some(at + piece.len());
        } else {
            self.differs = true;
        }
        None
    }

    /// Returns an error if the delivered text differs from the finished reply.
    pub(super) fn failure(&self) -> Option<LlmError> {
        let differs = self.differs || self.repeated.is_some();
        differs.then(|| {
            let text = "the run was interrupted during this stream, and the repeated reply differs from the delivered text"; // prose-ok: diagnostic
            LlmError::new(Category::TransientNetwork, text.to_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Delivered;

    fn told(delivered: &mut Delivered, pieces: &[&str]) -> String {
        pieces.iter().filter_map(|piece| delivered.fresh((*piece).to_owned())).collect()
    }

    #[test]
    fn a_repeated_reply_continues_where_the_first_one_stopped() {
        let mut delivered = Delivered::default();
        assert_eq!(told(&mut delivered, &["one ", "two "]), "one two ");
        delivered.restart();
        assert_eq!(told(&mut delivered, &["on", "e tw", "o three", " four"]), "three four");
        delivered.restart();
        assert!(delivered.failure().is_some(), "the repeated reply is shorter");
        assert_eq!(told(&mut delivered, &["one two three four"]), "");
        assert!(delivered.failure().is_none());
    }

    #[test]
    fn a_different_reply_is_an_error() {
        let mut delivered = Delivered::default();
        assert_eq!(told(&mut delivered, &["one ", "two "]), "one two ");
        delivered.restart();
        assert_eq!(told(&mut delivered, &["one ", "too ", "many"]), "");
        assert!(delivered.failure().is_some());
    }
}
