// Ids of jobs: 8 random characters of [a-z2-7]. An id always has a letter, so that no shell or parser reads it as a
// number.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::base {

class JobId {
 public:
  // Makes an id from the kernel's random source.
  static JobId random();
  // INVALID_ARGUMENT unless `text` is a whole, well-formed id.
  static Result<JobId> parse(std::string_view text);

  const std::string& str() const { return text_; }
  auto operator<=>(const JobId&) const = default;

 private:
  explicit JobId(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

// Fills `data` from the kernel's random source, for keys and nonces.
void random_bytes(void* data, std::size_t size);

// Returns `bytes` random bytes as lower-case hex, for tokens and nonces.
std::string random_hex(std::size_t bytes);

}  // namespace muster::base
