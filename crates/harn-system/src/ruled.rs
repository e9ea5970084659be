//! Requests of the runtime under the egress rules of a program.

use std::rc::Rc;
use std::sync::Arc;

use crate::egress::Egress;
use crate::net::{HttpError, HttpReply, HttpRequest};
use crate::socket::Socket;
use crate::system::{Layer, System};
use crate::wait::Waiting;

/// A system that adds the egress rules of a program to requests. The runtime uses it for requests on behalf of a
/// program.
pub struct Ruled<'a> {
    /// The system that sends the requests.
    pub system: &'a dyn System,
    /// The rules; `None` if the program has none.
    pub rules: Option<Arc<Egress>>,
}

impl Ruled<'_> {
    fn under_rules(&self, request: HttpRequest) -> HttpRequest {
        HttpRequest { egress: request.egress.clone().or_else(|| self.rules.clone()), ..request }
    }
}

impl Layer for Ruled<'_> {
    fn inner(&self) -> &dyn System {
        self.system
    }

    fn http(&self, request: HttpRequest) -> Waiting<'_, Result<HttpReply, HttpError>> {
        self.system.http(self.under_rules(request))
    }

    fn websocket(&self, request: HttpRequest) -> Waiting<'_, Result<Rc<dyn Socket>, HttpError>> {
        self.system.websocket(self.under_rules(request))
    }
}
