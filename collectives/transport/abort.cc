#include "collectives/transport/abort.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <type_traits>

namespace muster::collectives::inline transport {
namespace {

template <std::size_t kSize>
void put_text(char (&to)[kSize], const std::string& text) {
  const std::size_t size = std::min(text.size(), kSize - 1);
  std::memcpy(to, text.data(), size);
  to[size] = '\0';
}

template <std::size_t kSize>
std::string get_text(const char (&from)[kSize]) {
  return {from, strnlen(from, kSize)};
}

}  // namespace

static_assert(std::is_trivially_destructible_v<AbortRecord>);

// Writes one line for each field: code, rank, host, message.
std::string encode(const Failure& failure) {
  return fmt::format("{}\n{}\n{}\n{}", static_cast<int>(failure.code), failure.rank, failure.host, failure.message);
}

Failure decode_failure(const std::string& text) {
  Failure failure{base::Code::kAborted, -1, "", "another rank failed and gave no reason"};
  const std::size_t first = text.find('\n');
  const std::size_t second = text.find('\n', first == std::string::npos ? first : first + 1);
  const std::size_t third = text.find('\n', second == std::string::npos ? second : second + 1);
  if (third == std::string::npos) return failure;
  int code = 0;
  std::from_chars(text.data(), text.data() + first, code);
  if (code > 0 && code <= static_cast<int>(base::Code::kUnauthenticated)) failure.code = static_cast<base::Code>(code);
  std::from_chars(text.data() + first + 1, text.data() + second, failure.rank);
  failure.host = text.substr(second + 1, third - second - 1);
  failure.message = text.substr(third + 1);
  return failure;
}

bool AbortRecord::raise(const Failure& failure) {
  if (is_raised()) return false;
  const std::uint32_t at = claimed_.fetch_add(1, std::memory_order_relaxed);
  if (at >= kSlots) return false;
  Slot& slot = slots_[at];
  slot.rank = failure.rank;
  slot.code = static_cast<std::int32_t>(failure.code);
  put_text(slot.host, failure.host);
  put_text(slot.message, failure.message);
  std::uint32_t none = 0;
  return published_.compare_exchange_strong(none, at + 1, std::memory_order_acq_rel);
}

Failure AbortRecord::read() const {
  const std::uint32_t number = published_.load(std::memory_order_acquire);
  if (number == 0 || number > kSlots) {
    return {base::Code::kInternal, -1, "", "the shared memory of this host's ranks is damaged"};
  }
  const Slot& slot = slots_[number - 1];
  const bool is_code = slot.code > 0 && slot.code <= static_cast<std::int32_t>(base::Code::kUnauthenticated);
  return {is_code ? static_cast<base::Code>(slot.code) : base::Code::kInternal, slot.rank, get_text(slot.host),
          get_text(slot.message)};
}

}  // namespace muster::collectives::transport
