#include "collectives/join/member.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "base/net.h"

namespace muster::collectives::inline join {
namespace {

constexpr std::size_t kFields = 9;
constexpr std::string_view kVersion = "member1";

template <typename T>
bool read_number(std::string_view text, T& number) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() && end == text.data() + text.size();
}

}  // namespace

// Writes one line for each field: version, rank, host, place, pid, address, port, name of the Unix socket, and whether
// the rank encrypts (0 or 1).
std::string encode(const Member& member) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", kVersion, member.rank, member.host, member.place, member.pid,
                     member.address, member.port, member.unix_name, member.encrypts ? 1 : 0);
}

base::Result<Member> decode_member(std::string_view bytes) {
  std::array<std::string_view, kFields> fields;
  std::string_view rest = bytes;
  bool is_whole = bytes.size() <= 4096;
  for (std::size_t i = 0; i < kFields && is_whole; ++i) {
    const std::size_t end = rest.find('\n');
    is_whole = (end == std::string_view::npos) == (i + 1 == kFields);
    fields[i] = rest.substr(0, end);
    if (end != std::string_view::npos) rest.remove_prefix(end + 1);
  }
  Member member;
  is_whole = is_whole && fields[0] == kVersion && read_number(fields[1], member.rank) &&
             read_number(fields[4], member.pid) && read_number(fields[6], member.port) && member.rank >= 0 &&
             member.pid > 0 && base::IpAddress::parse(fields[5]).ok() && (fields[8] == "0" || fields[8] == "1");
  if (!is_whole) {
    return base::invalid_argument("cannot read the description of a rank: do all ranks use the same libmuster?");
  }
  member.host = fields[2];
  member.place = fields[3];
  member.address = fields[5];
  member.unix_name = fields[7];
  member.encrypts = fields[8] == "1";
  return member;
}

}  // namespace muster::collectives::join
