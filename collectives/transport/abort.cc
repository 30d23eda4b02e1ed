#include "collectives/transport/abort.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace muster::collectives {
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

bool AbortRecord::raise(const Failure& failure) {
  std::uint32_t none = 0;
  if (!state_.compare_exchange_strong(none, kBeingWritten, std::memory_order_acq_rel)) return false;
  rank_ = failure.rank;
  code_ = static_cast<std::int32_t>(failure.code);
  put_text(host_, failure.host);
  put_text(message_, failure.message);
  state_.store(kThere, std::memory_order_release);
  return true;
}

Failure AbortRecord::read() const {
  const bool is_code = code_ > 0 && code_ <= static_cast<std::int32_t>(base::Code::kUnauthenticated);
  return {is_code ? static_cast<base::Code>(code_) : base::Code::kInternal, rank_, get_text(host_), get_text(message_)};
}

}  // namespace muster::collectives
