//! `[variant.NAME]`: named sets of changes to the values of a platform file.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::Platform;

/// Changes by the variant's name, for example `processor.npe-b.count = 0`: the table, the name of
/// the entry in its list, and the key.
pub type Variants = BTreeMap<String, Table>;

impl Platform {
    /// The platform with these variants, separated by `+` and applied in this order.
    ///
    /// # Errors
    /// The name of an unknown variant, or the invalid value that results.
    pub fn with_variants(&self, names: &str) -> Result<Self, String> {
        let mut platform = self.clone();
        for name in names.split('+') {
            let Some(changes) = self.variants.get(name) else {
                let known: Vec<&str> = self.variants.keys().map(String::as_str).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(format!("{} has no variant {name:?}; it has {known}", self.name));
            };
            platform = platform.changed(changes).map_err(|what| format!("variant {name}: {what}"))?;
        }
        Ok(platform)
    }

    fn changed(&self, changes: &Table) -> Result<Self, String> {
        let mut document = Table::try_from(self).map_err(|error| error.to_string())?;
        for (table, of) in changes {
            let of = of
                .as_table()
                .ok_or(format!("{table}: a table was expected, as in processor.NAME.key = 1"))?;
            match document.get_mut(table) {
                Some(Value::Array(list)) => {
                    of.iter().try_for_each(|(name, keys)| change_one(list, table, name, keys))?;
                }
                Some(Value::Table(there)) => there.extend(of.clone()),
                _ => return Err(format!("{table}: there is no such table")),
            }
        }
        let platform: Self =
            document.try_into().map_err(|error: toml::de::Error| error.message().to_owned())?;
        platform.check().map_err(|problem| problem.to_string())?;
        Ok(platform)
    }

    /// Checks each variant alone, so that a mistake is reported when the file is read and not when
    /// the variant is first used: the names of wrong ones, and what is wrong.
    pub(super) fn wrong_variants(&self) -> Vec<(String, String)> {
        // What is wrong without a variant is its own error.
        let own = self.check().err().map(|problem| problem.to_string());
        let wrong = |(name, changes): (&String, &Table)| Some((name.clone(), self.changed(changes).err()?));
        self.variants.iter().filter_map(wrong).filter(|(_, what)| Some(what) != own.as_ref()).collect()
    }
}

fn change_one(list: &mut [Value], table: &str, name: &str, keys: &Value) -> Result<(), String> {
    let is_it = |of: &&mut Value| of.get("name").and_then(Value::as_str) == Some(name);
    let found = list.iter_mut().find(is_it).and_then(Value::as_table_mut);
    let found = found.ok_or(format!("{table}.{name}: there is no [[{table}]] with this name"))?;
    let keys = keys.as_table().ok_or(format!("{table}.{name}: give a key, as in {table}.{name}.key = 1"))?;
    found.extend(keys.clone());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        name = "two"
        reference = { t_init_us = 1.0, block_mbps = 100.0 }
        [[processor]]
        name = "cpu"
        kind = "cpu"
        [[processor]]
        name = "engine"
        [[stage]]
        name = "receive"
        place = "before"
        on = "cpu"
        packet_us = 3.0
        [variant.software]
        processor.engine.count = 0
        [variant.fast]
        reference.block_mbps = 1000
        stage.receive.packet_us = 1
        stage.receive.enabled = false
    "#;

    #[test]
    fn variants_change_what_they_name_and_are_made_one_on_top_of_the_other() {
        let platform = Platform::from_toml("two.toml", TEXT).expect("good");
        let both = platform.with_variants("software+fast").expect("both are there");
        assert_eq!((both.processors[0].count, both.processors[1].count), (1, 0));
        assert_eq!(both.reference.block_mbps, 1000.0);
        assert_eq!((both.stages[0].packet_us, both.stages[0].enabled), (1.0, false));
        assert_eq!(both.stages[0].on, platform.stages[0].on);
    }

    #[test]
    fn a_wrong_variant_is_named_with_its_line() {
        for (from, to, what) in [
            (
                "processor.engine.count = 0",
                "processor.motor.count = 0",
                "two.toml:14:9: error: variant.software: processor.motor",
            ),
            (
                "processor.engine.count = 0",
                "engine.count = 0",
                "variant.software: engine: there is no such table",
            ),
            ("processor.engine.count = 0", "processor.engine.cores = 0", "unknown field `cores`"),
            (
                "reference.block_mbps = 1000",
                "reference.block_mbps = 0",
                "variant.fast: reference.block_mbps: 0",
            ),
        ] {
            let error =
                Platform::from_toml("two.toml", &TEXT.replace(from, to)).expect_err("wrong").to_string();
            assert!(error.contains(what), "{to}: {error}");
        }
        let platform = Platform::from_toml("two.toml", TEXT).expect("good");
        let error = platform.with_variants("slow").expect_err("no such variant");
        assert_eq!(error, "two has no variant \"slow\"; it has fast, software");
    }
}
