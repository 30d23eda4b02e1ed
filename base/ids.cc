#include "base/ids.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace muster::base {
namespace {

constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz234567";
constexpr std::size_t kJobIdLength = 8;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

void random_bytes(void* data, std::size_t size) {
  auto* at = static_cast<unsigned char*>(data);
  while (size > 0) {
    const ssize_t n = ::getrandom(at, size, 0);
    MUSTER_CHECK(n > 0 || errno == EINTR);
    if (n <= 0) continue;
    at += n;
    size -= static_cast<std::size_t>(n);
  }
}

JobId JobId::random() {
  while (true) {
    std::array<unsigned char, kJobIdLength> bytes{};
    random_bytes(bytes.data(), bytes.size());
    std::string text;
    for (const unsigned char byte : bytes) text += kAlphabet[byte % kAlphabet.size()];
    if (!std::ranges::all_of(text, is_digit)) return JobId(std::move(text));
  }
}

Result<JobId> JobId::parse(std::string_view text) {
  const bool in_alphabet =
      std::ranges::all_of(text, [](char c) { return kAlphabet.find(c) != std::string_view::npos; });
  if (text.size() != kJobIdLength || !in_alphabet || std::ranges::all_of(text, is_digit)) {
    return base::invalid_argument("'{}' is not a job id: 8 characters a-z and 2-7 are expected", text);
  }
  return JobId(std::string(text));
}

std::string random_hex(std::size_t bytes) {
  std::string raw(bytes, '\0');
  random_bytes(raw.data(), raw.size());
  std::string hex;
  for (const char c : raw) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return hex;
}

}  // namespace muster::base
