// A range of addresses, such as 10.1.0.0/16 or fd00::/8. A plain value; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/net.h"
#include "base/status.h"

namespace muster::base {

class IpNetwork {
 public:
  // Parses ADDRESS/LENGTH; an address alone is a network of one. Bits after the length must be zero, because
  // 10.1.2.3/16 is probably a mistake.
  static Result<IpNetwork> parse(std::string_view text);

  bool contains(const IpAddress& address) const;
  const std::string& str() const { return text_; }

 private:
  IpNetwork() = default;

  std::string text_;
  std::array<std::uint8_t, 16> bytes_{};
  int length_ = 0;  // in bits
  bool is_v6_ = false;
};

}  // namespace muster::base
