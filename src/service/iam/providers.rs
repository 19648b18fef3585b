//! Calls about the providers of identities whose tokens assume roles: the tables `[[issuer]]` of
//! the users file. Nothing is asked of a provider here: its keys are asked for with its first token.

use super::answers::date;
use super::{IamCall, IamRequest};
use crate::auth::{is_thumbprint, provider_arn, provider_name, provider_of_arn};
use crate::base::is_confidential_url;
use crate::base::limits::{
    ISSUER_AUDIENCES_MAX, ISSUER_THUMBPRINT_CHARS, ISSUER_THUMBPRINTS_MAX, ISSUER_URL_MAX_BYTES,
};
use crate::s3::query_call::CallWriter;
use crate::s3::{CallError, Response};
use crate::service::iam_changes::IamChange;
use crate::service::policies::ProviderEntry;
use crate::service::users::{UserChange, UserError};

const ARN: &str = "OpenIDConnectProviderArn";
const CLIENTS: &str = "ClientIDList";
const CLIENT: &str = "ClientID";
const THUMBPRINTS: &str = "ThumbprintList";

pub(super) const CALLS: &[IamCall] = &[
    IamCall { name: "CreateOpenIDConnectProvider", params: &["Url", CLIENTS, THUMBPRINTS], run: create },
    IamCall { name: "GetOpenIDConnectProvider", params: &[ARN], run: get },
    IamCall { name: "ListOpenIDConnectProviders", params: &[], run: list },
    IamCall { name: "DeleteOpenIDConnectProvider", params: &[ARN], run: delete },
    IamCall { name: "AddClientIDToOpenIDConnectProvider", params: &[ARN, CLIENT], run: add_client },
    IamCall { name: "RemoveClientIDFromOpenIDConnectProvider", params: &[ARN, CLIENT], run: remove_client },
    IamCall {
        name: "UpdateOpenIDConnectProviderThumbprint",
        params: &[ARN, THUMBPRINTS],
        run: set_thumbprints,
    },
];

impl IamRequest<'_> {
    /// The providers.
    pub(super) fn providers(&self) -> Result<Vec<ProviderEntry>, CallError> {
        self.service.providers(self.caller).map_err(|error| self.refusal(&error))
    }

    /// The URL, without the scheme, of the provider that the request is about.
    fn provider(&self) -> Result<&str, CallError> {
        provider_of_arn(self.required(ARN)?)
            .ok_or_else(|| invalid(format!("{ARN} is the ARN of no provider")))
    }

    /// The client that the request is about.
    fn client(&self) -> Result<String, CallError> {
        checked_client(self.required(CLIENT)?)
    }

    /// The thumbprints in the request.
    fn thumbprints(&self) -> Result<Vec<String>, CallError> {
        let sent = self.params.list(THUMBPRINTS)?;
        if sent.len() > ISSUER_THUMBPRINTS_MAX {
            return Err(invalid(format!("{THUMBPRINTS} has at most {ISSUER_THUMBPRINTS_MAX} entries")));
        }
        if sent.iter().any(|text| !is_thumbprint(text)) {
            let length = ISSUER_THUMBPRINT_CHARS;
            return Err(invalid(format!("{THUMBPRINTS}: a thumbprint has {length} letters and digits")));
        }
        Ok(sent.into_iter().map(str::to_owned).collect())
    }
}

fn invalid(message: String) -> CallError {
    CallError::new(400, "InvalidInput", message)
}

fn checked_client(client: &str) -> Result<String, CallError> {
    match client.len() <= ISSUER_URL_MAX_BYTES && !client.is_empty() && !client.chars().any(char::is_control)
    {
        true => Ok(client.to_owned()),
        false => Err(invalid(format!(
            "{CLIENT} has 1 to {ISSUER_URL_MAX_BYTES} bytes, none of a control character"
        ))),
    }
}

/// The URL of a new provider. It is asked for keys by it, so that nobody on the way may answer.
fn checked_url(url: &str) -> Result<String, CallError> {
    let is_text = !url.chars().any(|c| c.is_control() || c.is_whitespace() || matches!(c, '?' | '#' | '*'));
    match url.len() <= ISSUER_URL_MAX_BYTES && is_text && is_confidential_url(url) {
        true => Ok(url.to_owned()),
        false => Err(invalid(format!(
            "Url begins with https:// (http:// is for the host of this server alone), has no query, and at most \
             {ISSUER_URL_MAX_BYTES} bytes"
        ))),
    }
}

fn create(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let url = checked_url(asked.required("Url")?)?;
    let mut audiences: Vec<String> = Vec::new();
    for client in asked.params.list(CLIENTS)? {
        let client = checked_client(client)?;
        if !audiences.contains(&client) {
            audiences.push(client);
        }
    }
    if audiences.len() > ISSUER_AUDIENCES_MAX {
        return Err(invalid(format!("{CLIENTS} has at most {ISSUER_AUDIENCES_MAX} entries")));
    }
    let thumbprints = asked.thumbprints()?;
    asked.change(&UserChange::Iam(IamChange::CreateProvider { url: url.clone(), audiences, thumbprints }))?;
    Ok(asked.answer(|result| result.leaf(ARN, &provider_arn(provider_name(&url)))))
}

fn get(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let name = asked.provider()?;
    let found = asked.providers()?.into_iter().find(|provider| provider_name(&provider.url) == name);
    let found = found
        .ok_or_else(|| asked.refusal(&UserError::Unknown { kind: "provider", name: name.to_owned() }))?;
    Ok(asked.answer(|result| {
        // Without the scheme, as the answers of IAM have it.
        result.leaf("Url", provider_name(&found.url));
        date(result, "CreateDate", found.created.as_deref());
        write_list(result, CLIENTS, &found.audiences);
        write_list(result, THUMBPRINTS, &found.thumbprints);
    }))
}

fn write_list(result: &mut CallWriter, name: &str, entries: &[String]) {
    result.element(name, |list| {
        for entry in entries {
            list.leaf("member", entry);
        }
    });
}

fn list(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let providers = asked.providers()?;
    Ok(asked.answer(|result| {
        result.element("OpenIDConnectProviderList", |list| {
            for provider in &providers {
                list.element("member", |member| {
                    member.leaf("Arn", &provider_arn(provider_name(&provider.url)));
                });
            }
        });
    }))
}

fn delete(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let provider = asked.provider()?.to_owned();
    asked.done(&UserChange::Iam(IamChange::DeleteProvider { provider }))
}

fn add_client(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let provider = asked.provider()?.to_owned();
    let audience = asked.client()?;
    asked.done(&UserChange::Iam(IamChange::AddAudience { provider, audience }))
}

fn remove_client(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let provider = asked.provider()?.to_owned();
    let audience = asked.client()?;
    asked.done(&UserChange::Iam(IamChange::RemoveAudience { provider, audience }))
}

fn set_thumbprints(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let provider = asked.provider()?.to_owned();
    let thumbprints = asked.thumbprints()?;
    asked.done(&UserChange::Iam(IamChange::SetThumbprints { provider, thumbprints }))
}
