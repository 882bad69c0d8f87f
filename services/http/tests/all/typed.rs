//! What requests say as values of types, by the example; and what is refused, in words.

#[allow(dead_code)] // its main
#[path = "../../examples/typed.rs"]
mod example;

use corelane::Lanes;
use corelane::lanes::Running;
use corelane_http::http1::Method;
use corelane_http::{Http, Routes, Unfit};
use std::io::{Read, Write};
use std::net::TcpStream;

/// The status and the content of the answer.
fn ask(running: &Running, head: &str, content: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(running.address().inet().unwrap()).unwrap();
    let length = content.len();
    write!(stream, "{head} HTTP/1.1\r\nHost: a\r\nX-Count: 3x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{content}")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, content) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), content.to_owned())
}

#[test]
fn what_parses_is_given_to_the_handler_and_what_does_not_is_refused_in_words() {
    let serve = Lanes::per_core().lanes(1).serve("tcp://127.0.0.1:0", |_| Http::new(example::routes()));
    let running = serve.unwrap().start().unwrap();
    let number = "invalid digit found in string";
    let large = "number too large to fit in target type";
    let long = "x".repeat(1_001);
    for (head, content, status, words) in [
        ("GET /sum/4294967295/1", "", 200, "4294967296\n".to_owned()),
        ("GET /sum/%31%32/%30", "", 200, "12\n".to_owned()),
        ("GET /sum/1/x", "", 400, format!("400 Bad Request: {{b}} of the path: {number}\n")),
        ("GET /sum/4294967296/1", "", 400, format!("400 Bad Request: {{a}} of the path: {large}\n")),
        ("GET /sum/%zz/1", "", 400, "400 Bad Request: {a} of the path: is not well encoded\n".to_owned()),
        ("GET /sum/%ff/1", "", 400, "400 Bad Request: {a} of the path: is no UTF-8\n".to_owned()),
        ("PUT /shelves/1?at=7&at=x", "jam", 201, "201 Created\n".to_owned()),
        ("PUT /shelves/1?%61t=%37", "jam", 200, "200 OK\n".to_owned()),
        ("PUT /shelves/1", "", 201, "201 Created\n".to_owned()),
        ("PUT /shelves/256", "jam", 400, format!("400 Bad Request: {{shelf}} of the path: {large}\n")),
        ("PUT /shelves/1?at=-1", "jam", 400, format!("400 Bad Request: at of the query: {number}\n")),
        ("PUT /shelves/1?at=%3", "jam", 400, "400 Bad Request: at of the query: is not well encoded\n".to_owned()),
        (
            "PUT /shelves/1",
            &long,
            413,
            "413 Content Too Large\nthe peer's content is over the limit; send less, or raise the limit\n".to_owned(),
        ),
    ] {
        assert_eq!(ask(&running, head, content), (status, words), "{head}");
    }
}

#[test]
fn a_handler_refuses_what_it_reads_itself() {
    let routes = || {
        let mut routes = Routes::new(());
        routes.get("/{name}", |(), _, request, reply| match request.parse_field::<u8>("x-count") {
            Ok(count) => reply.text(&format!("{count:?}")),
            Err(unfit) => unfit.answer(reply),
        });
        routes.get("/name/{name}", |(), _, request, reply| match request.parse::<String>("name") {
            Ok(name) if name.len() < 10 => reply.text(&name),
            Ok(_) => Unfit::new("{name} of the path", "is longer than a name may be").answer(reply),
            Err(unfit) => unfit.answer(reply),
        });
        routes.get("/content/", |(), _, request, reply| match request.parse_content::<String>() {
            Ok(content) => reply.text(&content),
            Err(unfit) => unfit.answer(reply),
        });
        Http::new(routes)
    };
    let running = Lanes::per_core().lanes(1).serve("tcp://127.0.0.1:0", move |_| routes()).unwrap().start().unwrap();
    let ask = |head: &str| ask(&running, head, "").1;
    assert_eq!(ask("GET /one"), "400 Bad Request: the field x-count: invalid digit found in string\n");
    assert_eq!(ask("GET /name/a%20b"), "a b");
    assert_eq!(ask("GET /name/abcdefghijk"), "400 Bad Request: {name} of the path: is longer than a name may be\n");
    assert_eq!(ask("GET /content/"), "400 Bad Request: the content: was not collected\n");
}

#[test]
#[should_panic(expected = "names 2 places")]
fn a_handler_that_takes_other_places_than_its_path_names_is_refused_at_once() {
    Routes::new(()).typed(Method::Get, "/{{x}}/{a}/{b}", |(), _, (_,): (u8,), _, reply| reply.text(""));
}
