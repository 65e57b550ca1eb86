"""Header values: what no HTTP header can hold is refused before it is sent.

The library underneath would refuse it as well, with an error that prints the value. A token is a
secret, and errors go to logs.
"""


def header_value(field: str, text: str) -> str:
    """The value as `http.client` sends it: UTF-8. Errors name the field, never the value.

    A newline at the end is that of the file which it was read from.
    """
    if not isinstance(text, str):
        raise TypeError(f"{field} is a str, not {type(text).__name__}")
    text = text.rstrip("\r\n")
    for number, character in enumerate(text, 1):
        if character < " " or character == "\x7f" or "\ud800" <= character <= "\udfff":
            raise ValueError(
                f"{field}: character {number} of {len(text)} is a line break or another one that "
                "no HTTP header can hold"
            )
    return text.encode().decode("latin-1")
