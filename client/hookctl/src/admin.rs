//! `hookctl rules`, `explain`, `status` and `reload`: what hookd has loaded.

use crate::{
    args::{ExplainArgs, Global, Output},
    context, json,
    render::{Paint, admin},
    report::{FAILED, Failure, OK, Report},
};

pub(crate) async fn rules(global: &Global, event: String, paint: Paint) -> Result<Report, Failure> {
    let answer = global.client()?.list_rules(event.as_str()).await?;
    Ok(Report::ok(match global.output {
        Output::Human => admin::rules(&answer, &event, paint),
        Output::Json => json::line(&json::rules(&answer)),
    }))
}

pub(crate) async fn explain(global: &Global, args: Box<ExplainArgs>, paint: Paint) -> Result<Report, Failure> {
    let request = context::request(args.event)?;
    let answer = global.client()?.explain(request.clone(), args.labels.into_iter().collect()).await?;
    Ok(Report::ok(match global.output {
        Output::Human => admin::explanation(&request, &answer, paint),
        Output::Json => json::line(&json::explanation(&answer)),
    }))
}

pub(crate) async fn status(global: &Global, paint: Paint) -> Result<Report, Failure> {
    let answer = global.client()?.status().await?;
    Ok(Report::ok(match global.output {
        Output::Human => admin::status(&answer, paint),
        Output::Json => json::line(&json::status(&answer)),
    }))
}

pub(crate) async fn reload(global: &Global, paint: Paint) -> Result<Report, Failure> {
    let answer = global.client()?.reload().await?;
    let text = match global.output {
        Output::Human => admin::reload(&answer, paint),
        Output::Json => json::line(&json::reload(&answer)),
    };
    Ok(Report { text, exit: if answer.ok { OK } else { FAILED } })
}
