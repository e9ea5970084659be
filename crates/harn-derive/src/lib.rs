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
//! | `with = PATH` | Converts the value: `fn(&Value) -> Result<T, String>` |
//! | `name = "..."` | The name of the option, if it differs from the field name |
//! | `flatten` | The field is a struct with more options of the same dict |
//! | `nil` | nil is a valid value; the field is an `Option<Value>` |
//!
//! The error of `with` is appended to the name of the option: `must be positive`, or `: expected a list`.
//!
//! Attributes of the struct: `#[options(thrown)]` reports wrong values as thrown errors of the builtin instead of
//! runtime errors; `#[options(own_type)]` does so for a value that is not a dict; `#[options(short = "NAME")]` accepts
//! the value of that option in place of the dict.

use std::fmt::Display;

use quote::quote;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Expr, Field, Fields, Lit, LitStr, Meta, Path, parse_macro_input};

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
    with: Option<Path>,
    name: Option<LitStr>,
    nil: bool,
    flatten: bool,
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
}

fn dict_keys(input: &DeriveInput) -> syn::Result<DictKeys> {
    let mut keys = DictKeys::default();
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("options")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("thrown") {
                keys.thrown = true;
            } else if meta.path.is_ident("own_type") {
                keys.own_type = true;
            } else if meta.path.is_ident("short") {
                keys.short = Some(meta.value()?.parse()?);
            } else {
                return error(&meta.path, "expected `thrown`, `own_type` or `short`");
            }
            Ok(())
        })?;
    }
    Ok(keys)
}

fn implementation(input: &DeriveInput) -> syn::Result<proc_macro::TokenStream> {
    let Data::Struct(data) = &input.data else { return error(&input.ident, "expected a struct") };
    let Fields::Named(fields) = &data.fields else { return error(&input.ident, "expected named fields") };
    let (mut groups, mut rows, mut reads) = (Vec::new(), Vec::new(), Vec::new());
    for field in &fields.named {
        let Some(ident) = &field.ident else { continue };
        let keys = keys(field)?;
        let field_type = &field.ty;
        if keys.flatten {
            groups.push(quote!(&[#(#rows),*]));
            groups.push(quote!(<#field_type as ::harn_schema::options::Options>::FIELDS));
            rows.clear();
            reads.push(quote!(#ident: <#field_type as ::harn_schema::options::Options>::read(given)?));
            continue;
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
            None => quote!(<#field_type as ::harn_schema::options::FromOption>::TYPE),
        };
        let default = match (&keys.shown, &keys.default) {
            (Some(shown), _) => quote!(Some(#shown)),
            (None, Some(default)) => quote!(Some(stringify!(#default))),
            (None, None) if keys.with.is_none() => {
                quote!(<#field_type as ::harn_schema::options::FromOption>::MISSING)
            }
            (None, None) => quote!(None),
        };
        rows.push(quote! {
            ::harn_schema::options::OptionField { name: #name, ty: #ty, doc: #doc, default: #default }
        });
        if keys.nil {
            reads.push(quote!(#ident: given.given(#name)));
            continue;
        }
        let read = match &keys.with {
            Some(with) => quote!(#with),
            None => quote!(<#field_type as ::harn_schema::options::FromOption>::from_option),
        };
        let missing = match &keys.default {
            Some(default) => quote!(#default),
            None => quote!(::core::default::Default::default()),
        };
        reads.push(quote!(#ident: given.read(#name, #read)?.unwrap_or_else(|| #missing)));
    }
    let ident = &input.ident;
    let DictKeys { thrown, own_type, short } = dict_keys(input)?;
    let short = match short {
        Some(name) => quote!(Some(#name)),
        None => quote!(None),
    };
    let implementation = quote! {
        impl ::harn_schema::options::Options for #ident {
            const FIELDS: &'static [::harn_schema::options::OptionField] = {
                const GROUPS: &[&[::harn_schema::options::OptionField]] = &[#(#groups,)* &[#(#rows),*]];
                const LEN: usize = ::harn_schema::options::count(GROUPS);
                &::harn_schema::options::joined::<LEN>(GROUPS)
            };
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
