// Base64 (RFC 4648). Pure. Thread: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster::base {

// kStrict: the alphabet with + and /, in groups of four, with padding at the end.
// kLenient: also the alphabet with - and _, as in proto3 JSON, and any padding or none.
enum class Base64 { kStrict, kLenient };

// nullopt if `text` has another form.
std::optional<std::string> decode_base64(std::string_view text, Base64 form = Base64::kStrict);

std::string encode_base64(std::string_view bytes);

}  // namespace muster::base
