#include "runtime/token_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/random.h"

namespace trireme::runtime {
namespace {

class SyntheticTokens : public TokenSource {
 public:
  SyntheticTokens(std::uint64_t seed, std::int64_t vocabulary)
      : key_(random_key(seed, "tokens")),
        rule_(random_key(seed, "rule")),
        vocabulary_(vocabulary) {}

  // Three quarters of the tokens follow the rule, so that a model has something to learn.
  void read(std::int64_t index, std::span<std::int32_t> tokens) const override {
    const auto vocabulary = static_cast<std::uint64_t>(vocabulary_);
    std::uint64_t previous = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::uint64_t draw = random_bits(key_, (static_cast<std::uint64_t>(index) << 24U) + i);
      const bool follows = i > 0 && (draw & 3U) != 0;
      previous = (follows ? random_bits(rule_, previous) : draw >> 2U) % vocabulary;
      tokens[i] = static_cast<std::int32_t>(previous);
    }
  }

 private:
  std::uint64_t key_;
  std::uint64_t rule_;
  std::int64_t vocabulary_;
};

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw Error(path, what);
}

class FileTokens : public TokenSource {
 public:
  FileTokens(std::string path, int token_bytes, std::int64_t sequence, std::int64_t vocabulary)
      : path_(std::move(path)),
        token_bytes_(token_bytes),
        sequence_(sequence),
        vocabulary_(vocabulary) {
    const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) {
      fail(path_, fmt::format("cannot open the token file: {}", std::strerror(errno)));
    }
    struct stat status {};
    const bool known = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
    size_ = known ? status.st_size : 0;
    count_ = size_ / token_bytes_;
    void* mapped =
        size_ > 0 ? ::mmap(nullptr, static_cast<std::size_t>(size_), PROT_READ, MAP_SHARED, file, 0)
                  : MAP_FAILED;
    ::close(file);
    if (!known) {
      fail(path_, "is not a regular file of tokens");
    }
    if (count_ < sequence_ + 1 || size_ % token_bytes_ != 0) {
      if (mapped != MAP_FAILED) {
        ::munmap(mapped, static_cast<std::size_t>(size_));
      }
      fail(path_,
           fmt::format(
               "holds {} bytes; a sequence of {} needs at least {} tokens of {} bytes, whole ones",
               size_, sequence_, sequence_ + 1, token_bytes_));
    }
    if (mapped == MAP_FAILED) {
      fail(path_, fmt::format("cannot map the token file: {}", std::strerror(errno)));
    }
    bytes_ = static_cast<const unsigned char*>(mapped);
  }
  FileTokens(const FileTokens&) = delete;
  FileTokens& operator=(const FileTokens&) = delete;
  FileTokens(FileTokens&&) = delete;
  FileTokens& operator=(FileTokens&&) = delete;
  ~FileTokens() override {
    ::munmap(const_cast<unsigned char*>(bytes_), static_cast<std::size_t>(size_));
  }

  void read(std::int64_t index, std::span<std::int32_t> tokens) const override {
    const std::int64_t windows = (count_ - 1) / sequence_;
    const std::int64_t start = (index % windows) * sequence_;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::int64_t token = token_at(start + static_cast<std::int64_t>(i));
      if (token >= vocabulary_) {
        fail(path_, fmt::format("token {} at position {} is outside the model's vocabulary of {}",
                                token, start + static_cast<std::int64_t>(i), vocabulary_));
      }
      tokens[i] = static_cast<std::int32_t>(token);
    }
  }

 private:
  [[nodiscard]] std::int64_t token_at(std::int64_t position) const {
    const unsigned char* at = bytes_ + position * token_bytes_;
    if (token_bytes_ == 2) {
      std::uint16_t token = 0;
      std::memcpy(&token, at, sizeof(token));
      return token;
    }
    std::uint32_t token = 0;
    std::memcpy(&token, at, sizeof(token));
    return token;
  }

  std::string path_;
  int token_bytes_;
  std::int64_t sequence_;
  std::int64_t vocabulary_;
  std::int64_t size_ = 0;
  std::int64_t count_ = 0;
  const unsigned char* bytes_ = nullptr;
};

}  // namespace

std::unique_ptr<TokenSource> synthetic_tokens(std::uint64_t seed, std::int64_t vocabulary) {
  return std::make_unique<SyntheticTokens>(seed, vocabulary);
}

std::unique_ptr<TokenSource> file_tokens(const std::string& path, int token_bytes,
                                         std::int64_t sequence, std::int64_t vocabulary) {
  if (token_bytes == 0) {
    token_bytes = path.ends_with(".u32") || path.ends_with(".bin32") ? 4 : 2;
  }
  return std::make_unique<FileTokens>(path, token_bytes, sequence, vocabulary);
}

}  // namespace trireme::runtime
