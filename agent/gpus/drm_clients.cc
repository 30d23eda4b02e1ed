#include "agent/gpus/drm_clients.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/directory.h"
#include "base/file.h"
#include "base/strings.h"

namespace muster::agent::inline gpus {
namespace {

constexpr std::size_t kMostBytes = 64 << 10;
constexpr std::size_t kMostName = 256;  // length of the name of a device's file
constexpr std::string_view kDevices = "/dev/dri/";

// Names of the fields that count a region's memory, the best first: the memory that is there now, the same in older
// kernels, and all memory that was allocated for the region.
constexpr auto kKinds = std::to_array<std::string_view>({"drm-resident-", "drm-memory-", "drm-total-"});

// Parses "1234", "1234 KiB" or "12 MiB".
std::optional<std::uint64_t> bytes_of(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc()) return std::nullopt;
  const std::string_view unit = base::trim(text.substr(static_cast<std::size_t>(end - text.data())));
  const int shift = unit.empty() ? 0 : unit == "KiB" ? 10 : unit == "MiB" ? 20 : -1;
  if (shift < 0 || value > std::numeric_limits<std::uint64_t>::max() >> shift) return std::nullopt;
  return value << shift;
}

// True for memory of the GPU itself. amdgpu calls it "vram", xe "vram0", "vram1", ... (one for each tile), i915
// "local0", ...
bool is_of_gpu(std::string_view region) {
  for (const std::string_view name : {"vram", "local"}) {
    if (!region.starts_with(name)) continue;
    const std::string_view number = region.substr(name.size());
    return number.find_first_not_of("0123456789") == std::string_view::npos;
  }
  return false;
}

// One amount for each kind, in the order of kKinds.
using Amounts = std::array<std::optional<std::uint64_t>, kKinds.size()>;

void add_memory(std::string_view key, std::string_view value, Amounts& amounts) {
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    if (!key.starts_with(kKinds.at(i)) || !is_of_gpu(key.substr(kKinds.at(i).size()))) continue;
    if (const auto bytes = bytes_of(value)) amounts.at(i) = amounts.at(i).value_or(0) + *bytes;
  }
}

// Returns the target of a link. Empty if it is not a link, or if we may not read it.
std::string link_of(const std::string& path) {
  std::array<char, kMostName> target{};
  const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  return size > 0 ? std::string(target.data(), static_cast<std::size_t>(size)) : std::string();
}

std::vector<pid_t> processes_of(uid_t uid, const std::string& root) {
  std::vector<pid_t> pids;
  for (const std::string& name : base::entries_of(root + "/proc")) {
    const auto pid = base::parse_decimal(name, std::numeric_limits<pid_t>::max());
    struct stat owner {};
    if (!pid || ::stat((root + "/proc/" + name).c_str(), &owner) != 0) continue;
    if (uid == 0 || owner.st_uid == uid) pids.push_back(static_cast<pid_t>(*pid));
  }
  std::ranges::sort(pids);
  return pids;
}

}  // namespace

std::optional<DrmClient> parse_drm_client(std::string_view fdinfo) {
  DrmClient client;
  std::optional<std::uint64_t> id;
  Amounts amounts;
  for (const std::string_view line : base::split(fdinfo, '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, colon);
    const std::string_view value = base::trim(line.substr(colon + 1));
    if (key == "drm-pdev") client.pci = std::string(value);
    if (key == "drm-client-id") id = bytes_of(value);
    add_memory(key, value, amounts);
  }
  if (client.pci.empty() || !id) return std::nullopt;
  client.id = *id;
  const auto known = std::ranges::find_if(amounts, [](const auto& amount) { return amount.has_value(); });
  if (known != amounts.end()) client.memory = *known;
  return client;
}

std::vector<DrmUser> read_drm_users(uid_t uid, const std::string& root) {
  std::vector<DrmUser> users;
  std::set<std::pair<std::string, std::uint64_t>> seen;
  for (const pid_t pid : processes_of(uid, root)) {
    const std::string process = fmt::format("{}/proc/{}", root, pid);
    for (const std::string& fd : base::entries_of(process + "/fd")) {
      // Read the target of the descriptor's link first. fdinfo is of use only for a DRM device.
      if (!link_of(process + "/fd/" + fd).starts_with(kDevices)) continue;
      const auto content = base::read_file(process + "/fdinfo/" + fd, kMostBytes);
      auto client = content.ok() ? parse_drm_client(*content) : std::nullopt;
      if (!client || !seen.emplace(client->pci, client->id).second) continue;
      users.push_back({pid, *std::move(client)});
    }
  }
  return users;
}

}  // namespace muster::agent::gpus
