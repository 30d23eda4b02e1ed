#include "launcherd/ssh/known_hosts.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>

#include "base/base64.h"
#include "base/strings.h"
#include "base/unique_fd.h"

namespace muster::launcherd::inline ssh {
namespace {

constexpr std::size_t kSaltSize = 20;  // the size of a SHA-1 digest, as in OpenSSH

// True unless the file lacks its last newline, as a file edited by hand may.
bool ends_with_newline(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) return true;
  char last = '\n';
  return ::pread(fd, &last, 1, info.st_size - 1) != 1 || last == '\n';
}

}  // namespace

bool has_marker_lines(std::string_view known_hosts) {
  for (const std::string_view line : base::split(known_hosts, '\n')) {
    if (base::trim(line).starts_with('@')) return true;
  }
  return false;
}

std::string hashed_host_name(std::string_view name, std::string_view salt) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> mac{};
  unsigned mac_size = 0;
  ::HMAC(::EVP_sha1(), salt.data(), static_cast<int>(salt.size()), reinterpret_cast<const unsigned char*>(name.data()),
         name.size(), mac.data(), &mac_size);
  return fmt::format("|1|{}|{}", base::encode_base64(salt),
                     base::encode_base64({reinterpret_cast<const char*>(mac.data()), mac_size}));
}

base::Status add_known_host(const std::string& path, std::string_view entry, bool hash) {
  static std::mutex mutex;  // several log-ins may write the same file
  const std::size_t blank = entry.find(' ');
  if (blank == std::string_view::npos) {
    return {base::Code::kInternal, "known_hosts entry without a key"};
  }
  std::string line(entry.substr(0, blank));
  if (hash) {
    std::string salt(kSaltSize, '\0');
    MUSTER_CHECK(::RAND_bytes(reinterpret_cast<unsigned char*>(salt.data()), static_cast<int>(salt.size())) == 1);
    line = hashed_host_name(line, salt);
  }
  line += entry.substr(blank);
  if (!line.ends_with('\n')) line += '\n';

  const std::lock_guard lock(mutex);
  if (const std::size_t slash = path.rfind('/'); slash != std::string::npos && slash > 0) {
    const std::string directory = path.substr(0, slash);
    if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
      return base::errno_error(errno, fmt::format("cannot make {}", directory));
    }
  }
  const base::UniqueFd file(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid()) return base::errno_error(errno, fmt::format("cannot write {}", path));
  if (!ends_with_newline(file.get())) line.insert(0, "\n");
  return base::write_all_blocking(file.get(), line.data(), line.size());
}

}  // namespace muster::launcherd::ssh
