// Where tokens come from: a seeded synthetic stream, or a memory-mapped file of uint16 or uint32
// tokens. A sequence is named by its index in the global order (step * global_batch + position),
// never by rank, so that every layout trains on the same data.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace trireme::runtime {

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  TokenSource() = default;
  TokenSource(const TokenSource&) = delete;
  TokenSource& operator=(const TokenSource&) = delete;
  TokenSource(TokenSource&&) = delete;
  TokenSource& operator=(TokenSource&&) = delete;

  // Fills `tokens` with the first tokens.size() tokens of global sequence `index`: sequence + 1 of
  // them give inputs and, shifted by one, targets. Safe to call from several threads. Throws Error
  // on a token outside the vocabulary.
  virtual void read(std::int64_t index, std::span<std::int32_t> tokens) const = 0;
};

// Tokens with structure to learn: each follows from its predecessor by a seeded rule, with noise.
std::unique_ptr<TokenSource> synthetic_tokens(std::uint64_t seed, std::int64_t vocabulary);

// `path` holds tokens back to back, `token_bytes` 2 or 4 each (0: by the extension .u32 or .bin32,
// else 2). Sequence i starts at token (i * sequence) modulo what the file holds. Throws Error when
// it is missing, empty or too short.
std::unique_ptr<TokenSource> file_tokens(const std::string& path, int token_bytes,
                                         std::int64_t sequence, std::int64_t vocabulary);

}  // namespace trireme::runtime
