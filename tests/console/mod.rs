//! The console, in this process: its pages and, above all, the attacks that it must withstand.

mod account;
mod activity;
mod archive;
mod attacks;
mod deleted;
mod editors;
mod grid;
mod harness;
mod home;
mod listener;
mod locks;
mod oidc;
mod origin;
mod outbound;
mod overload;
mod overview;
mod pages;
mod path;
mod pdf;
mod proxies;
mod refused;
mod rewind;
mod selected;
mod sessions;
mod state;
mod users;
