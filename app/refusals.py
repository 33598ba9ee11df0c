"""What the edge itself refuses, before a session or an engine sees it."""

from __future__ import annotations


class Refusal(Exception):
    """Base of everything that the edge refuses.

    Refusal
    +- NotJson            a message is not JSON text
    +- BinaryFrame        the client sent a binary frame
    +- MessageTooLarge    a message is longer than its limit
    +- WrongMediaType     a body is not declared as JSON
    +- InvalidField       a field is missing, unknown, or not what is allowed: names it
    +- ImageUnavailable   an image on the web could not be fetched now; may be tried again
    +- UnknownModel       the request names a model that is not served here
    +- UnknownScene       no scene of this name has a picture
    +- NothingRecorded    of a session nothing was recorded, or it is kept no more
    +- StartTimeout       no `session.start` in time
    +- Stalled            neither progress nor a ping for too long
    +- Unauthorized       a token or key is missing or wrong
    +- OriginRefused      the page's origin is not on the list
    +- HostRefused        the server was reached by a name that is not on the list
    +- NotReady           the model is not loaded yet; may be tried again
    """

    field: str | None = None

    @property
    def message(self) -> str:
        """One sentence for the client."""
        return str(self)


class NotJson(Refusal):
    """A message is not JSON text."""


class BinaryFrame(Refusal):
    """The client sent a binary frame; it speaks JSON text."""


class MessageTooLarge(Refusal):
    """A message is longer than its limit."""


class WrongMediaType(Refusal):
    """A body is not declared as JSON."""


class InvalidField(Refusal):
    """A field is missing, unknown, or not what is allowed. `field` is a path, e.g. `extra_params.pacing`."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(field, message)
        self.field = field

    def __str__(self) -> str:
        field, message = self.args
        return f"{field}: {message}"


class ImageUnavailable(InvalidField):
    """An image on the web could not be fetched now; may be tried again."""


class UnknownModel(InvalidField):
    """The request names a model that is not served here."""


class UnknownScene(InvalidField):
    """No scene of this name has a picture."""


class NothingRecorded(Refusal):
    """Of a session nothing was recorded, or it is kept no more."""


class StartTimeout(Refusal):
    """No `session.start` in time."""


class Stalled(Refusal):
    """Neither progress nor a ping for too long."""


class Unauthorized(Refusal):
    """A token or key is missing or wrong."""


class OriginRefused(Refusal):
    """The page's origin is not on the list."""


class HostRefused(Refusal):
    """The server was reached by a name that is not on the list."""


class NotReady(Refusal):
    """The model is not loaded yet, or could not be."""


def shortened(value: object, limit: int = 80) -> str:
    """`value` as it came, cut to `limit` characters, for an error message."""
    text = repr(value[:limit]) if isinstance(value, str) else repr(value)
    size = len(value) if isinstance(value, str) else len(text)
    return text if size <= limit else f"{text[:limit]}... ({size} characters)"
