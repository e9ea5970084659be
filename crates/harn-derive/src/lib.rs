//! `#[derive(Options)]`: implements `harn_schema::options::Options` for a struct whose fields are the options of a
//! dict.
//!
//! The doc comment of a field is the documentation of the option. The value is converted with `FromOption`; a field
//! whose type does not implement it, or that needs additional checks, names a function. Keys of `#[option(...)]`:
//!
//! | Key | Meaning |
//! | --- | --- |
//! | `default = EXPR` | The value of an option that is missing or nil; without this key, that of `Default` |
//! | `shown = "..."` | The default in the documentation, if it differs from the source of `default` |
//! | `ty = "..."` | The type in the notation of signatures, if it differs from that of the field's type |
//! | `with = EXPR` | Converts the value: `fn(&Value) -> Result<T, String>` |
//! | `name = "..."` | The name of the option, if it differs from the field name |
//! | `flatten` | The field is a struct with more options of the same dict |
//! | `nil` | nil is a valid value; the field is an `Option<Value>` |
//! | `foreign = ["..."]` | Names of the option in other libraries, for suggestions |
//!
//! `#[options(data)]` on the struct describes a data dict (`DataOptions`): values are converted with `FromData`, and
//! fields have more keys:
//!
//! | Key | Meaning |
//! | --- | --- |
//! | `shape = SHAPE` | The expected shape, if it differs from that of the field's type |
//! | `range = A..=B` | The inclusive range of a number; `A..` is the minimum of an int |
//! | `one_of = ["..."]` | The accepted strings |
//! | `group = TYPE` | `with` converts the options of another struct to the field: `fn(TYPE) -> Result<T, E>` |
//! | `dependent` | The option can only be checked together with others |
//! | `skip` | The field is not an option; its value is that of `Default` |
//!
//! In data dicts, `with` is a `fn(&Data) -> Result<T, E>` that returns the complete error message, and a field with
//! `nil` is an `Option<Data>`.
//!
//! In other dicts, the error of `with` is appended to the name of the option: `must be positive`, or
//! `: expected a list`.
//!
//! Attributes of the struct: `#[options(thrown)]` reports wrong values as thrown errors of the builtin instead of
//! runtime errors; `#[options(own_type)]` does so for a value that is not a dict; `#[options(short = "NAME")]` accepts
//! the value of that option in place of the dict.

use std::fmt::Display;

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DeriveInput, Expr, ExprRange, Field, Fields, Ident, Lit, LitStr, Meta, RangeLimits,
    Token, Type, bracketed, parse_macro_input, parse_quote,
};

/// Derives `Options`; see the crate documentation.
#[proc_macro_derive(Options, attributes(option, options))]
pub fn derive_options(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    implementation(&input).unwrap_or_else(|error| error.to_compile_error().into())
}

/// The parsed `#[option(...)]` of a field.
#[derive(Default)]
struct Keys {
    default: Option<Expr>,
    shown: Option<LitStr>,
    ty: Option<LitStr>,
    with: Option<Expr>,
    name: Option<LitStr>,
    nil: bool,
    flatten: bool,
    foreign: Vec<LitStr>,
    shape: Option<Expr>,
    group: Option<Type>,
    dependent: bool,
    skip: bool,
}

/// Returns the shape of a number in a range.
fn range(limits: &ExprRange) -> syn::Result<Expr> {
    match (&limits.start, &limits.end, &limits.limits) {
        (Some(from), None, _) => Ok(parse_quote!(::harn_schema::shape::Shape::Int(#from))),
        (Some(from), Some(to), RangeLimits::Closed(_)) => {
            Ok(parse_quote!(::harn_schema::shape::Shape::Number(#from, #to)))
        }
        _ => error(limits, "expected `LEAST..` for an int or `LEAST..=MOST` for a number"),
    }
}

/// Parses a list of string literals.
fn strings(input: ParseStream) -> syn::Result<Vec<LitStr>> {
    let list;
    bracketed!(list in input);
    Ok(list.parse_terminated(<LitStr as Parse>::parse, Token![,])?.into_iter().collect())
}

fn error<T>(at: &impl Spanned, text: impl Display) -> syn::Result<T> {
    Err(syn::Error::new(at.span(), text))
}

fn keys(field: &Field) -> syn::Result<Keys> {
    let mut keys = Keys::default();
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("option")) {
        attribute.parse_nested_meta(|meta| {
            let Some(key) = meta.path.get_ident() else { return error(&meta.path, "expected a name") };
            match key.to_string().as_str() {
                "default" => keys.default = Some(meta.value()?.parse()?),
                "shown" => keys.shown = Some(meta.value()?.parse()?),
                "ty" => keys.ty = Some(meta.value()?.parse()?),
                "with" => keys.with = Some(meta.value()?.parse()?),
                "name" => keys.name = Some(meta.value()?.parse()?),
                "nil" => keys.nil = true,
                "foreign" => keys.foreign = strings(meta.value()?)?,
                "shape" => keys.shape = Some(meta.value()?.parse()?),
                "range" => keys.shape = Some(range(&meta.value()?.parse()?)?),
                "one_of" => {
                    let words = strings(meta.value()?)?;
                    keys.shape = Some(parse_quote!(::harn_schema::shape::Shape::Word(&[#(#words),*])));
                }
                "group" => keys.group = Some(meta.value()?.parse()?),
                "dependent" => keys.dependent = true,
                "skip" => keys.skip = true,
                "flatten" => keys.flatten = true,
                other => return error(key, format!("unknown key `{other}`")),
            }
            Ok(())
        })?;
    }
    Ok(keys)
}

/// Returns the doc comment with its lines joined.
fn docs(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    lines.collect::<Vec<_>>().join(" ").trim().to_owned()
}

/// The parsed `#[options(...)]` of a struct.
#[derive(Default)]
struct DictKeys {
    thrown: bool,
    own_type: bool,
    short: Option<LitStr>,
    data: bool,
}

fn dict_keys(input: &DeriveInput) -> syn::Result<DictKeys> {
    let mut keys = DictKeys::default();
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("options")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("thrown") {
                keys.thrown = true;
            } else if meta.path.is_ident("own_type") {
                keys.own_type = true;
            } else if meta.path.is_ident("data") {
                keys.data = true;
            } else if meta.path.is_ident("short") {
                keys.short = Some(meta.value()?.parse()?);
            } else {
                return error(&meta.path, "expected `thrown`, `own_type`, `data` or `short`");
            }
            Ok(())
        })?;
    }
    Ok(keys)
}

/// The parts of an implementation: the rows of the table, in groups, and the expression that parses each field.
#[derive(Default)]
struct Parts {
    groups: Vec<TokenStream>,
    rows: Vec<TokenStream>,
    reads: Vec<TokenStream>,
}

impl Parts {
    /// Adds the options of another struct.
    fn group(&mut self, fields: TokenStream) {
        let rows = std::mem::take(&mut self.rows);
        self.groups.push(quote!(&[#(#rows),*]));
        self.groups.push(fields);
    }

    fn add(&mut self, ident: &Ident, field: &Field, is_data: bool) -> syn::Result<()> {
        let keys = keys(field)?;
        let field_type = &field.ty;
        let options = match is_data {
            true => quote!(::harn_schema::options::DataOptions),
            false => quote!(::harn_schema::options::Options),
        };
        let from = match is_data {
            true => quote!(::harn_schema::options::FromData),
            false => quote!(::harn_schema::options::FromOption),
        };
        if !is_data && (keys.shape.is_some() || keys.group.is_some() || keys.dependent || keys.skip) {
            return error(ident, "expected a key of `#[options(data)]` only there");
        }
        if keys.skip {
            self.reads.push(quote!(#ident: ::core::default::Default::default()));
            return Ok(());
        }
        if keys.flatten {
            self.group(quote!(<#field_type as #options>::FIELDS));
            self.reads.push(quote!(#ident: <#field_type as #options>::read(given)?));
            return Ok(());
        }
        if let Some(group) = &keys.group {
            let Some(with) = &keys.with else { return error(ident, "a group needs `with`") };
            self.group(quote!(<#group as #options>::FIELDS));
            let read = quote!(#with(<#group as #options>::read(given)?));
            self.reads.push(quote!(#ident: #read.map_err(|wrong| wrong.to_string())?));
            return Ok(());
        }
        let doc = docs(&field.attrs);
        if doc.is_empty() {
            return error(ident, "an option needs a doc comment");
        }
        // An option that is documented here but read elsewhere has an unused field: `_name`.
        let plain = ident.to_string().trim_start_matches('_').to_owned();
        let name = keys.name.as_ref().map_or(plain, LitStr::value);
        let ty = match &keys.ty {
            Some(ty) => quote!(#ty),
            None => quote!(<#field_type as #from>::TYPE),
        };
        let default = match (&keys.shown, &keys.default) {
            (Some(shown), _) => quote!(Some(#shown)),
            (None, Some(default)) => quote!(Some(stringify!(#default))),
            (None, None) if keys.with.is_none() && !is_data => quote!(<#field_type as #from>::MISSING),
            (None, None) => quote!(None),
        };
        let shape = match &keys.shape {
            Some(shape) => quote!(#shape),
            None if is_data && keys.with.is_none() && !keys.nil => quote!(<#field_type as #from>::SHAPE),
            None => quote!(::harn_schema::shape::Shape::Any),
        };
        let (foreign, is_dependent) = (&keys.foreign, keys.dependent);
        self.rows.push(quote! {
            ::harn_schema::options::OptionField {
                name: #name,
                ty: #ty,
                doc: #doc,
                default: #default,
                shape: #shape,
                foreign: &[#(#foreign),*],
                is_dependent: #is_dependent,
            }
        });
        let missing = match &keys.default {
            Some(default) => quote!(#default),
            None => quote!(::core::default::Default::default()),
        };
        let value = if keys.nil {
            match is_data {
                true => quote!(::harn_schema::options::given_data(given, #name, #shape)?),
                false => quote!(given.given(#name)),
            }
        } else if is_data {
            let read = match &keys.with {
                Some(with) => quote!(|value| {
                    let with = #with;
                    with(value).map(Some)
                }),
                None => quote!(|value| {
                    ::core::result::Result::<_, ::std::string::String>::Ok(
                        <#field_type as #from>::from_data(value),
                    )
                }),
            };
            quote! {
                ::harn_schema::options::read_data(given, #name, #shape, #read)?.unwrap_or_else(|| #missing)
            }
        } else {
            let read = match &keys.with {
                Some(with) => quote!(#with),
                None => quote!(<#field_type as #from>::from_option),
            };
            quote!(given.read(#name, #read)?.unwrap_or_else(|| #missing))
        };
        self.reads.push(quote!(#ident: #value));
        Ok(())
    }
}

fn implementation(input: &DeriveInput) -> syn::Result<proc_macro::TokenStream> {
    let Data::Struct(data) = &input.data else { return error(&input.ident, "expected a struct") };
    let Fields::Named(fields) = &data.fields else { return error(&input.ident, "expected named fields") };
    let DictKeys { thrown, own_type, short, data: is_data } = dict_keys(input)?;
    let mut parts = Parts::default();
    for field in &fields.named {
        if let Some(ident) = &field.ident {
            parts.add(ident, field, is_data)?;
        }
    }
    let Parts { groups, rows, reads } = parts;
    let table = quote! {
        const FIELDS: &'static [::harn_schema::options::OptionField] = {
            const GROUPS: &[&[::harn_schema::options::OptionField]] = &[#(#groups,)* &[#(#rows),*]];
            const LEN: usize = ::harn_schema::options::count(GROUPS);
            &::harn_schema::options::joined::<LEN>(GROUPS)
        };
    };
    let ident = &input.ident;
    if is_data {
        return Ok(quote! {
            impl ::harn_schema::options::DataOptions for #ident {
                #table

                fn read(
                    given: &::harn_schema::options::Object,
                ) -> ::core::result::Result<Self, ::std::string::String> {
                    Ok(#ident { #(#reads),* })
                }
            }
        }
        .into());
    }
    let short = match short {
        Some(name) => quote!(Some(#name)),
        None => quote!(None),
    };
    let implementation = quote! {
        impl ::harn_schema::options::Options for #ident {
            #table
            const TYPE: &'static str = {
                const FIELDS: &[::harn_schema::options::OptionField] =
                    <#ident as ::harn_schema::options::Options>::FIELDS;
                const LEN: usize = ::harn_schema::options::notation_len(#short, FIELDS);
                ::harn_schema::options::as_text(&::harn_schema::options::notation::<LEN>(#short, FIELDS))
            };
            const IS_THROWN: bool = #thrown;
            const OWN_TYPE: bool = #own_type;
            const SHORT: Option<&'static str> = #short;

            fn read(
                given: &::harn_schema::options::Entries<'_>,
            ) -> ::core::result::Result<Self, ::std::string::String> {
                Ok(#ident { #(#reads),* })
            }
        }

        impl ::harn_schema::options::FromOption for #ident {
            const TYPE: &'static str = <#ident as ::harn_schema::options::Options>::TYPE;

            fn from_option(
                value: &::harn_schema::options::Value,
            ) -> ::core::result::Result<Self, ::std::string::String> {
                ::harn_schema::options::within(value)
            }
        }
    };
    Ok(implementation.into())
}
