// What comes before an agent has enrolled is any bytes: a header with a size, then a hello or an answer.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "proto/enrolment.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::proto;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto length = enrolment_size(bytes.substr(0, kEnrolmentHeader));
  if (!length.ok()) return 0;
  if (*length == 0 || *length > kMaxEnrolment) std::abort();
  const std::string_view text = bytes.substr(kEnrolmentHeader, *length);
  if (const auto hello = decode_hello(text); hello.ok()) {
    if (hello->names.empty() || hello->names.size() > kMaxHostNames) std::abort();
    if (encode_hello(*hello).substr(kEnrolmentHeader) != text) std::abort();
  }
  if (const auto answer = decode_answer(text); answer.ok() && answer->text.find('\x1b') != std::string::npos) {
    std::abort();
  }
  return 0;
}
