//! gzip, Zstandard and Brotli.

use flate2::{Compression, GzBuilder, read::MultiGzDecoder};
use harn_vm::Result;

use super::unpack::{Check, broken, read_all, target, write_all};
use crate::args::room_for_bytes;

/// The default window of Brotli in other programs: 4 MiB.
const BROTLI_WINDOW: u32 = 22;
const BROTLI_BUFFER: usize = 4096;

/// Permitted window sizes of Zstandard as powers of two. The library allocates the window outside of the memory limit.
const ZSTD_WINDOWS: std::ops::RangeInclusive<u32> = 10..=27;

pub(super) fn gzip(name: &str, bytes: &[u8], level: i32, check: &impl Check) -> Result<Vec<u8>> {
    let level = Compression::new(level.unsigned_abs());
    let mut encoder = GzBuilder::new().mtime(0).write(target(bytes.len())?, level);
    write_all(name, bytes, &mut encoder, check)?;
    encoder.finish().map_err(|error| broken(name, error))
}

pub(super) fn gunzip(name: &str, bytes: &[u8], check: &impl Check) -> Result<Vec<u8>> {
    read_all(name, MultiGzDecoder::new(bytes), check)
}

pub(super) fn zstd(name: &str, bytes: &[u8], level: i32, check: &impl Check) -> Result<Vec<u8>> {
    let failed = |error| broken(name, error);
    let mut encoder = zstd::stream::write::Encoder::new(target(bytes.len())?, level).map_err(failed)?;
    // High levels use a window of 128 MiB unless the input is known to be smaller.
    encoder.set_pledged_src_size(Some(bytes.len() as u64)).map_err(failed)?;
    write_all(name, bytes, &mut encoder, check)?;
    encoder.finish().map_err(failed)
}

pub(super) fn unzstd(name: &str, bytes: &[u8], check: &impl Check) -> Result<Vec<u8>> {
    let failed = |error| broken(name, error);
    let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes).map_err(failed)?;
    let largest = ZSTD_WINDOWS.rev().find(|log| room_for_bytes(1 << log).is_ok());
    decoder.window_log_max(largest.unwrap_or(*ZSTD_WINDOWS.start())).map_err(failed)?;
    read_all(name, decoder, check)
}

pub(super) fn brotli(name: &str, bytes: &[u8], quality: i32, check: &impl Check) -> Result<Vec<u8>> {
    let target = target(bytes.len())?;
    let quality = quality.unsigned_abs();
    let mut encoder = brotli::CompressorWriter::new(target, BROTLI_BUFFER, quality, BROTLI_WINDOW);
    write_all(name, bytes, &mut encoder, check)?;
    Ok(encoder.into_inner())
}

pub(super) fn unbrotli(name: &str, bytes: &[u8], check: &impl Check) -> Result<Vec<u8>> {
    read_all(name, brotli::Decompressor::new(bytes, BROTLI_BUFFER), check)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Decode = fn(&[u8]) -> Result<Vec<u8>>;

    fn go_on() -> Result<()> {
        Ok(())
    }

    const DECODERS: [Decode; 3] = [
        |b| gunzip("gzip_decode", b, &go_on),
        |b| unzstd("zstd_decode", b, &go_on),
        |b| unbrotli("brotli_decode", b, &go_on),
    ];

    fn encoded(bytes: &[u8]) -> [Vec<u8>; 3] {
        [
            gzip("gzip_encode", bytes, 6, &go_on).unwrap(),
            zstd("zstd_encode", bytes, 3, &go_on).unwrap(),
            brotli("brotli_encode", bytes, 5, &go_on).unwrap(),
        ]
    }

    proptest! {
        #[test]
        fn what_was_packed_comes_back(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            for (packed, decode) in encoded(&bytes).iter().zip(DECODERS) {
                prop_assert_eq!(&decode(packed).unwrap(), &bytes);
            }
        }

        #[test]
        fn random_bytes_are_told_apart_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 1..300)) {
            for decode in DECODERS {
                let _ = decode(&bytes);
            }
        }

        #[test]
        fn a_changed_byte_is_no_panic(at in any::<proptest::sample::Index>(), byte in any::<u8>()) {
            for (mut packed, decode) in encoded(&b"abc".repeat(100)).into_iter().zip(DECODERS) {
                let at = at.index(packed.len());
                packed[at] = byte;
                let _ = decode(&packed);
            }
        }
    }

    #[test]
    fn what_is_cut_off_is_an_error() {
        for (packed, decode) in encoded(&b"abc".repeat(100)).iter().zip(DECODERS) {
            for cut in 1..packed.len() {
                assert!(decode(&packed[..cut]).is_err(), "{cut} of {}", packed.len());
            }
        }
    }

    #[test]
    fn a_bomb_stops_at_the_memory_limit() {
        let bombs = encoded(&vec![0; 20 << 20]);
        harn_value::memory::set_limit(1 << 20);
        for (bomb, decode) in bombs.iter().zip(DECODERS) {
            decode(bomb).expect_err("too large");
        }
        harn_value::memory::set_limit(harn_value::memory::DEFAULT_LIMIT);
    }
}
