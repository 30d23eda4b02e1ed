#include "collectives/join/alone_file.h"

#include <limits>
#include <utility>

#include "base/own_file.h"
#include "base/strings.h"
#include "rendezvous/session_frame.h"

namespace muster::collectives::inline join {
namespace {

constexpr std::size_t kMaxAddresses = 64;
constexpr std::string_view kFirstLine = "muster session 1";

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Returns an empty string if the digits are not kSessionSecretBytes bytes in hexadecimal.
std::string secret_of(std::string_view digits) {
  if (digits.size() != 2 * rendezvous::kSessionSecretBytes) return "";
  std::string secret;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    const int high = digit_of(digits[i]);
    const int low = digit_of(digits[i + 1]);
    if (high < 0 || low < 0) return "";
    secret.push_back(static_cast<char>(high * 16 + low));
  }
  return secret;
}

std::string digits_of(std::string_view secret) {
  std::string digits;
  for (const char byte : secret) digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return digits;
}

base::Status no_place(std::string_view what) {
  return base::invalid_argument("the file that rank 0 published has {}", what);
}

}  // namespace

base::Result<std::string> read_secret_file(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const std::string content, base::read_own_file(path));
  std::string secret = secret_of(base::trim(base::trim(content)));
  if (!secret.empty()) return secret;
  return base::invalid_argument(
      "{} must hold {} hexadecimal digits and nothing else; make them with: openssl rand -hex {}", path,
      2 * rendezvous::kSessionSecretBytes, rendezvous::kSessionSecretBytes);
}

std::string place_path(const std::string& directory) {
  return directory + "/muster.session";
}

std::string encode_place(const AlonePlace& place) {
  std::string text = fmt::format("{}\nsecret {}\nport {}\n", kFirstLine, digits_of(place.secret), place.port);
  for (const base::IpAddress& address : place.addresses) text += fmt::format("address {}\n", address.str());
  return text;
}

base::Result<AlonePlace> decode_place(std::string_view text) {
  AlonePlace place;
  const auto lines = base::split(text, '\n');
  if (lines.size() < 2 || lines.front() != kFirstLine || !lines.back().empty()) return no_place("another format");
  for (std::size_t i = 1; i + 1 < lines.size(); ++i) {
    const auto blank = lines[i].find(' ');
    const std::string_view name = lines[i].substr(0, blank);
    const std::string_view value = blank == std::string_view::npos ? std::string_view() : lines[i].substr(blank + 1);
    if (name == "secret") {
      place.secret = secret_of(value);
    } else if (name == "port") {
      place.port =
          static_cast<std::uint16_t>(base::parse_decimal(value, std::numeric_limits<std::uint16_t>::max()).value_or(0));
    } else if (name == "address" && place.addresses.size() < kMaxAddresses) {
      MUSTER_ASSIGN_OR_RETURN(base::IpAddress address, base::IpAddress::parse(value));
      place.addresses.push_back(std::move(address));
    } else {
      return no_place(fmt::format("a line \"{}\"", base::printable(lines[i].substr(0, 80))));
    }
  }
  if (place.secret.empty() || place.port == 0 || place.addresses.empty()) {
    return no_place("no secret, no port or no address");
  }
  return place;
}

}  // namespace muster::collectives::join
