#include "launcherd/bootstrap/agent_image.h"

#include <elf.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "base/unique_fd.h"

namespace muster::launcherd::inline bootstrap {
namespace {

constexpr std::size_t kLargestAgent = 512u << 20;

std::string canonical(std::string_view machine) {
  if (machine == "amd64" || machine == "x86-64") return "x86_64";
  if (machine == "arm64") return "aarch64";
  return std::string(machine);
}

base::Result<std::string> sha256_hex(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (::EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, ::EVP_sha256(), nullptr) != 1) {
    return base::internal_error("SHA-256 failed");
  }
  std::string hex;
  for (unsigned i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

std::string unpacker_path(const std::string& agent) {
  return agent.substr(0, agent.rfind('/') + 1) + "muster-unpack";
}

std::string packed_path(const std::string& agent) {
  return agent + ".zst";
}

// 0 if there is no such file.
std::uint64_t size_of_file(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) ? static_cast<std::uint64_t>(info.st_size) : 0;
}

}  // namespace

std::string elf_machine(std::string_view head) {
  Elf64_Ehdr header{};
  if (head.size() < sizeof header) return {};
  std::memcpy(&header, head.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return {};
  }
  switch (header.e_machine) {
    case EM_X86_64:
      return "x86_64";
    case EM_AARCH64:
      return "aarch64";
    case EM_PPC64:
      return "ppc64le";
    case EM_RISCV:
      return "riscv64";
    default:
      return fmt::format("elf{}", header.e_machine);
  }
}

bool is_same_machine(std::string_view a, std::string_view b) {
  return canonical(a) == canonical(b);
}

base::Result<AgentImage> AgentImage::open(const std::string& path) {
  const base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return base::errno_error(errno, fmt::format("cannot open the agent program {}", path));
  std::array<char, sizeof(Elf64_Ehdr)> head{};
  const ssize_t count = ::read(file.get(), head.data(), head.size());
  AgentImage image;
  image.path_ = path;
  image.machine_ = elf_machine({head.data(), count > 0 ? static_cast<std::size_t>(count) : 0});
  if (image.machine_.empty()) {
    return base::invalid_argument("{} is not a 64-bit program: it cannot be sent as the agent", path);
  }
  if (size_of_file(packed_path(path)) > 0) image.unpacker_size_ = size_of_file(unpacker_path(path));
  return image;
}

base::Result<std::shared_ptr<const AgentImage::Content>> AgentImage::load() const {
  const std::lock_guard lock(shared_->mutex);
  if (auto loaded = shared_->content.lock()) return loaded;
  auto content = std::make_shared<Content>();
  MUSTER_ASSIGN_OR_RETURN(content->bytes, base::read_file(path_, kLargestAgent));
  MUSTER_ASSIGN_OR_RETURN(content->sha256, sha256_hex(content->bytes));
  shared_->content = content;
  return std::shared_ptr<const Content>(std::move(content));
}

base::Result<std::shared_ptr<const AgentImage::Packed>> AgentImage::load_packed() const {
  if (unpacker_size_ == 0) return base::not_found("{} has no compressed form beside it", path_);
  const std::lock_guard lock(shared_->mutex);
  if (auto loaded = shared_->packed.lock()) return loaded;
  auto packed = std::make_shared<Packed>();
  MUSTER_ASSIGN_OR_RETURN(packed->unpacker, base::read_file(unpacker_path(path_), kLargestAgent));
  MUSTER_ASSIGN_OR_RETURN(packed->bytes, base::read_file(packed_path(path_), kLargestAgent));
  MUSTER_ASSIGN_OR_RETURN(const std::string agent, base::read_file(path_, kLargestAgent));
  MUSTER_ASSIGN_OR_RETURN(packed->sha256, sha256_hex(agent));
  packed->size = agent.size();
  if (packed->unpacker.size() != unpacker_size_)
    return base::failed_precondition("{} has changed meanwhile", unpacker_path(path_));
  shared_->packed = packed;
  return std::shared_ptr<const Packed>(std::move(packed));
}

}  // namespace muster::launcherd::bootstrap
