//! The page of clients, held against `tests/clients`: the tests that it names, and the versions
//! that those install.

use super::{read, rows};

/// The names under which packages of Python or Node.js install clients.
const PACKAGES: [(&str, &str); 12] = [
    ("boto3", "boto3"),
    ("aws cli", "awscli"),
    ("minio-py", "minio"),
    ("pyarrow", "pyarrow"),
    ("s5cmd", "s5cmd"),
    ("polars", "polars"),
    ("deltalake", "deltalake"),
    ("tensorstore", "tensorstore"),
    ("TileDB", "tiledb"),
    ("GDAL", "rasterio"),
    ("minio-js", "minio"),
    ("AWS SDK for JavaScript", "@aws-sdk/client-s3"),
];

fn clients() -> Vec<Vec<String>> {
    let clients = rows("src/guide/clients.md", "# Clients");
    assert!(clients.len() > PACKAGES.len());
    clients
}

/// The pinned version of a client, from the list of the language that its tests are written in.
fn pinned(package: &str, tests: &str) -> String {
    let (list, opening, end) = match tests {
        "test_js_clients.py" => ("js/package.json", format!("\"{package}\": \""), '"'),
        _ => ("requirements.txt", format!("\n{package}=="), '\n'),
    };
    let text = format!("\n{}", read(&format!("tests/clients/{list}")));
    let (_, rest) = text.split_once(&opening).unwrap_or_else(|| panic!("{package} is not in {list}"));
    rest.split(end).next().unwrap().to_owned()
}

#[test]
fn every_client_has_a_test_of_its_name() {
    for row in clients() {
        let name = format!("test_{}", row[0].to_lowercase().replace([' ', '-'], "_"));
        let file = row[4].trim_matches('`');
        let text = read(&format!("tests/clients/{file}"));
        assert!(file.starts_with(&name) || text.contains(&format!("def {name}")), "{file} has no {name}");
    }
}

#[test]
fn the_versions_of_clients_are_those_installed() {
    for row in clients() {
        let package = PACKAGES.iter().find(|(client, _)| *client == row[0]);
        match package {
            Some((_, package)) => assert_eq!(row[1], pinned(package, row[4].trim_matches('`')), "{}", row[0]),
            None => assert!(row[1].ends_with(", Debian 12"), "{}: {}", row[0], row[1]),
        }
    }
}
