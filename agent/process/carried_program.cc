#include "agent/process/carried_program.h"

#include <fcntl.h>
#include <lzma.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <utility>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U  // in the kernel since Linux 6.3
#endif

namespace muster::agent::inline process {
namespace {

constexpr int kSocket = 3;  // the child's descriptor number

constexpr std::uint64_t kMostMemory = std::uint64_t{64} << 20;  // for the decoder; our programs need 1 MiB

bool is_xz(std::string_view bytes) {
  return bytes.starts_with(
      std::string_view("\xfd"
                       "7zXZ\0",
                       6));
}

base::Status write_decompressed(int file, std::string_view bytes) {
  lzma_stream stream = LZMA_STREAM_INIT;
  if (::lzma_stream_decoder(&stream, kMostMemory, 0) != LZMA_OK)
    return base::resource_exhausted("no memory to decompress it");
  const std::unique_ptr<lzma_stream, void (*)(lzma_stream*)> ended(&stream, ::lzma_end);
  stream.next_in = reinterpret_cast<const std::uint8_t*>(bytes.data());
  stream.avail_in = bytes.size();
  std::array<char, 64 * 1024> piece;
  for (lzma_ret state = LZMA_OK; state != LZMA_STREAM_END;) {
    stream.next_out = reinterpret_cast<std::uint8_t*>(piece.data());
    stream.avail_out = piece.size();
    state = ::lzma_code(&stream, LZMA_FINISH);
    if (state != LZMA_OK && state != LZMA_STREAM_END) {
      return base::data_loss("its compressed bytes are damaged");
    }
    MUSTER_RETURN_IF_ERROR(base::write_all_blocking(file, piece.data(), piece.size() - stream.avail_out));
  }
  return base::ok_status();
}

// Moves a descriptor above those of the child. The spawn makes the child's descriptors one by one and would overwrite
// a lower one.
base::Status move_up(base::UniqueFd& fd) {
  base::UniqueFd above(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kSocket + 1));
  if (!above.valid()) return base::errno_error(errno, "duplicate a descriptor");
  fd = std::move(above);
  return base::ok_status();
}

base::Result<base::UniqueFd> file_in_memory(const CarriedProgram& program) {
  base::UniqueFd file(::memfd_create(program.name.c_str(), MFD_CLOEXEC | MFD_EXEC));
  if (!file.valid() && errno == EINVAL) file.reset(::memfd_create(program.name.c_str(), MFD_CLOEXEC));
  if (!file.valid()) return base::errno_error(errno, "make a file in memory");
  if (is_xz(program.bytes)) {
    MUSTER_RETURN_IF_ERROR(write_decompressed(file.get(), program.bytes));
  } else {
    MUSTER_RETURN_IF_ERROR(base::write_all_blocking(file.get(), program.bytes.data(), program.bytes.size()));
  }
  MUSTER_RETURN_IF_ERROR(move_up(file));
  return file;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

base::Result<CarriedChild> start(CarriedProgram& program) {
  MUSTER_ASSIGN_OR_RETURN(const base::UniqueFd file, file_in_memory(program));
  MUSTER_ASSIGN_OR_RETURN(base::FdPair pair, base::make_socketpair(SOCK_STREAM));
  MUSTER_RETURN_IF_ERROR(move_up(pair.second));
  std::vector<std::string> words = {program.name, std::to_string(kSocket)};
  const std::string path = fmt::format("/proc/self/fd/{}", file.get());
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  if (!program.keeps_stderr) ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, pair.second.get(), kSocket);
  CarriedChild child;
  const int failed = ::posix_spawn(&child.pid, path.c_str(), &actions, nullptr, pointers_to(words).data(),
                                   pointers_to(program.environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return base::errno_error(failed, "execute it");
  child.socket = std::move(pair.first);
  return child;
}

}  // namespace

base::Result<CarriedChild> start_carried(CarriedProgram program) {
  auto child = start(program);
  if (!child.ok()) return child.status().with_context(fmt::format("start {} from memory", program.name));
  return child;
}

}  // namespace muster::agent::process
