// All of process_sockets.h. Read SocketTables at the end first, then parse_line().
#include "agent/proc/process_sockets.h"

#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "base/directory.h"
#include "base/file.h"
#include "base/strings.h"

namespace muster::agent::inline proc {
namespace {

constexpr std::string_view kSocketLink = "socket:[";
constexpr unsigned kEstablished = 1;  // states of the kernel's enum in net/tcp_states.h
constexpr unsigned kListening = 10;
constexpr std::size_t kInodeField = 9;

template <typename T>
std::optional<T> hex_number(std::string_view text) {
  T value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The kernel prints an address as words of 4 bytes, each as a number of this processor.
std::optional<base::IpAddress> address_of_words(std::string_view hex) {
  constexpr std::size_t kWordDigits = 8;
  if (hex.size() != kWordDigits && hex.size() != 4 * kWordDigits) return std::nullopt;
  std::array<std::uint32_t, 4> words{};
  for (std::size_t i = 0; i * kWordDigits < hex.size(); ++i) {
    const auto word = hex_number<std::uint32_t>(hex.substr(i * kWordDigits, kWordDigits));
    if (!word) return std::nullopt;
    words.at(i) = *word;
  }
  base::SockAddr address;
  if (hex.size() == kWordDigits) {
    auto* const v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
    v4->sin_family = AF_INET;
    std::memcpy(&v4->sin_addr, words.data(), sizeof v4->sin_addr);
  } else {
    auto* const v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
    v6->sin6_family = AF_INET6;
    std::memcpy(&v6->sin6_addr, words.data(), sizeof v6->sin6_addr);
  }
  auto parsed = base::IpAddress::from_sockaddr(address.get());
  if (!parsed.ok()) return std::nullopt;
  return std::move(*parsed);
}

struct TableEnd {
  base::IpAddress address;
  std::uint16_t port = 0;
};

// Parses "0100007F:1F90".
std::optional<TableEnd> table_end(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  auto address = address_of_words(text.substr(0, colon));
  const auto port = hex_number<std::uint16_t>(text.substr(colon + 1));
  if (!address || !port) return std::nullopt;
  return TableEnd{.address = std::move(*address), .port = *port};
}

// nullopt for the headings, for sockets in other states, and for anything that is no line of the table.
std::optional<TcpSocket> parse_line(std::string_view line) {
  std::vector<std::string_view> fields;
  while (fields.size() <= kInodeField) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line.empty()) return std::nullopt;
    const std::size_t end = std::min(line.find(' '), line.size());
    fields.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  const auto state = hex_number<unsigned>(fields[3]);
  if (!state || (*state != kEstablished && *state != kListening)) return std::nullopt;
  auto local = table_end(fields[1]);
  auto peer = table_end(fields[2]);
  std::uint64_t inode = 0;
  const std::string_view digits = fields[kInodeField];
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), inode);
  if (!local || !peer || failure != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return TcpSocket{.local = std::move(local->address),
                   .local_port = local->port,
                   .peer = std::move(peer->address),
                   .peer_port = peer->port,
                   .is_listening = *state == kListening,
                   .inode = inode};
}

// Returns the target of a link in /proc. Empty if it cannot be read, or is longer than those that are looked for here.
std::string read_proc_link(const std::string& path) {
  std::array<char, 64> target{};
  const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  return size <= 0 ? std::string() : std::string(target.data(), static_cast<std::size_t>(size));
}

std::string namespace_of(pid_t pid) {
  return read_proc_link(fmt::format("/proc/{}/ns/net", pid));
}

// Returns the inode of the socket to which a link in /proc/PID/fd leads. nullopt if it leads to something else.
std::optional<std::uint64_t> inode_of_link(const std::string& path) {
  const std::string target = read_proc_link(path);
  std::string_view text(target);
  if (!text.starts_with(kSocketLink) || !text.ends_with(']')) return std::nullopt;
  text = text.substr(kSocketLink.size(), text.size() - kSocketLink.size() - 1);
  std::uint64_t inode = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), inode);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return inode;
}

// Calls `visit` with each inode until it returns true. Returns true if it did.
template <typename Visit>
bool any_socket(pid_t pid, Visit visit) {
  const std::string folder = fmt::format("/proc/{}/fd", pid);
  for (const std::string& name : base::entries_of(folder)) {
    const auto inode = inode_of_link(folder + "/" + name);
    if (inode && visit(*inode)) return true;
  }
  return false;
}

}  // namespace

std::vector<TcpSocket> parse_tcp_table(std::string_view content) {
  std::vector<TcpSocket> sockets;
  while (!content.empty()) {
    const std::size_t end = std::min(content.find('\n'), content.size());
    if (auto socket = parse_line(content.substr(0, end))) sockets.push_back(std::move(*socket));
    content.remove_prefix(std::min(end + 1, content.size()));
  }
  return sockets;
}

std::set<std::uint64_t> socket_inodes(pid_t pid) {
  std::set<std::uint64_t> inodes;
  any_socket(pid, [&](std::uint64_t inode) {
    inodes.insert(inode);
    return false;
  });
  return inodes;
}

bool has_socket(pid_t pid, std::uint64_t inode) {
  return any_socket(pid, [inode](std::uint64_t each) { return each == inode; });
}

std::vector<TcpSocket> SocketTables::of(pid_t pid) {
  const std::set<std::uint64_t> inodes = socket_inodes(pid);
  std::vector<TcpSocket> sockets;
  if (inodes.empty()) return sockets;
  const auto [table, is_new] = by_namespace_.try_emplace(namespace_of(pid));
  for (const char* const name : {"tcp", "tcp6"}) {
    if (!is_new) break;
    const auto content = base::read_file(fmt::format("/proc/{}/net/{}", pid, name));
    if (content.ok()) std::ranges::copy(parse_tcp_table(*content), std::back_inserter(table->second));
  }
  std::ranges::copy_if(table->second, std::back_inserter(sockets),
                       [&](const TcpSocket& socket) { return inodes.contains(socket.inode); });
  return sockets;
}

}  // namespace muster::agent::proc
