//! Costs by day and workflow, and by provider and model.

use std::collections::BTreeMap;
use std::sync::Arc;

use harn_value::{Data, json};

use crate::calls::Spent;
use crate::records::Row;

/// Returns the response about costs.
pub(crate) fn answer(rows: &[Arc<Row>]) -> Data {
    let mut days: BTreeMap<(&str, &str), (u64, Spent)> = BTreeMap::new();
    let mut models: BTreeMap<(Option<&str>, &str), Spent> = BTreeMap::new();
    let mut total = Spent::default();
    for row in rows {
        let used = row.total();
        total = total.and(&used);
        let day = row.started_at.as_deref().and_then(|time| time.get(..10)).unwrap_or("unknown");
        let (runs, sum) = days.entry((day, &row.workflow_name)).or_default();
        *runs += 1;
        *sum = sum.and(&used);
        for ((provider, model), used) in &row.spent {
            let sum = models.entry((provider.as_deref(), model)).or_default();
            *sum = sum.and(used);
        }
    }
    let trend = days.iter().map(|((day, workflow), (runs, used))| {
        let mut out = counts(used);
        out["day"] = (*day).into();
        out["workflow_name"] = (*workflow).into();
        out["runs"] = (*runs).into();
        out
    });
    let breakdown = models.iter().map(|((provider, model), used)| {
        let mut out = counts(used);
        out["provider"] = (*provider).into();
        out["model"] = (*model).into();
        out
    });
    json!({
        "summary": {
            "total_cost_usd": total.cost_usd, "runs": rows.len(), "calls": total.calls,
            "input_tokens": total.input_tokens, "output_tokens": total.output_tokens,
        },
        "trend": trend.collect::<Vec<_>>(),
        "provider_breakdown": breakdown.collect::<Vec<_>>(),
    })
}

fn counts(used: &Spent) -> Data {
    json!({
        "calls": used.calls, "input_tokens": used.input_tokens, "output_tokens": used.output_tokens,
        "cost_usd": used.cost_usd,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_by_day_and_by_model() {
        let row = |day: &str, model: &str, cost: f64| {
            let used = Spent { calls: 1, input_tokens: 10, output_tokens: 2, cost_usd: cost };
            Arc::new(Row {
                started_at: Some(format!("{day}T10:00:00Z")),
                workflow_name: "w".to_owned(),
                spent: [((Some("p".to_owned()), model.to_owned()), used)].into(),
                ..Row::default()
            })
        };
        let found =
            answer(&[row("2026-01-02", "m", 0.5), row("2026-01-02", "n", 0.25), row("2026-01-03", "m", 1.0)]);
        assert_eq!(found["summary"]["total_cost_usd"], 1.75);
        assert_eq!(found["trend"][0]["runs"], 2);
        assert_eq!(found["trend"][0]["cost_usd"], 0.75);
        assert_eq!(found["provider_breakdown"][0]["cost_usd"], 1.5);
    }
}
