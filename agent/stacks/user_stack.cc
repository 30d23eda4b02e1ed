#include "agent/stacks/user_stack.h"

#include <cxxabi.h>
#include <elfutils/libdwfl.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

namespace muster::agent::inline stacks {
namespace {

constexpr std::size_t kMaxFunction = 300;

// Makes libdw use no separate debug symbols. Otherwise it would search for them over the network. The unwind tables are
// in the file itself.
int find_no_symbols(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word, char**) {
  return -1;
}

const char* last_error() {
  const char* const message = ::dwfl_errmsg(-1);
  return message == nullptr ? "unknown error" : message;
}

std::string demangled(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(symbol, nullptr, nullptr, &status),
                                                         &std::free);
  std::string text = status == 0 && name != nullptr ? name.get() : symbol;
  if (text.size() > kMaxFunction) {
    text.resize(kMaxFunction);
    text += "…";
  }
  return text;
}

// A stack, and for each of its frames an address within the function. libdw stops a thread while its frames are read,
// so the names of the functions are looked up afterwards.
struct RawStack {
  UserStack stack;
  std::vector<Dwarf_Addr> inside;
};

int add_frame(Dwfl_Frame* frame, void* argument) {
  auto& raw = *static_cast<RawStack*>(argument);
  if (raw.stack.frames.size() >= kMaxUserFrames) {
    raw.stack.problem = "deeper frames are left out";
    return DWARF_CB_ABORT;
  }
  Dwarf_Addr address = 0;
  bool is_innermost = false;
  if (!::dwfl_frame_pc(frame, &address, &is_innermost)) {
    raw.stack.problem = last_error();
    return DWARF_CB_ABORT;
  }
  raw.stack.frames.emplace_back().address = address;
  // A caller's address is that of the instruction after the call, which may belong to the next function.
  raw.inside.push_back(is_innermost ? address : address - 1);
  return DWARF_CB_OK;
}

int add_thread(Dwfl_Thread* thread, void* argument) {
  RawStack& raw = (*static_cast<std::map<pid_t, RawStack>*>(argument))[::dwfl_thread_tid(thread)];
  // At the outermost function libdw reports an error, because that function has no rule for a caller. So ignore
  // errors after the first frame.
  if (::dwfl_thread_getframes(thread, add_frame, &raw) < 0 && raw.stack.frames.empty()) {
    raw.stack.problem = last_error();
  }
  return DWARF_CB_OK;
}

// Opens the file of a module, and its unwind tables.
int load_module(Dwfl_Module* module, void**, const char*, Dwarf_Addr, void*) {
  Dwarf_Addr bias = 0;
  ::dwfl_module_eh_cfi(module, &bias);
  return DWARF_CB_OK;
}

UserStack named(Dwfl* dwfl, RawStack raw) {
  for (std::size_t i = 0; i < raw.inside.size(); ++i) {
    UserFrame& frame = raw.stack.frames[i];
    Dwfl_Module* const module = ::dwfl_addrmodule(dwfl, raw.inside[i]);
    if (module == nullptr) continue;
    const char* const path = ::dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
    if (path != nullptr) frame.module = path;
    const char* const symbol = ::dwfl_module_addrname(module, raw.inside[i]);
    if (symbol != nullptr) frame.function = demangled(symbol);
  }
  return std::move(raw.stack);
}

base::Status refused(int error) {
  if (error == EPERM || error == EACCES) {
    return base::permission_denied(
        "the kernel does not let it be traced: see /proc/sys/kernel/yama/ptrace_scope, or whether a "
        "debugger has it");
  }
  return base::errno_error(error, "trace it");
}

using Session = std::unique_ptr<Dwfl, decltype(&::dwfl_end)>;

// Reads what is mapped in the process.
base::Result<Session> open_session(pid_t pid) {
  static char* no_path = nullptr;
  static const Dwfl_Callbacks kCallbacks{.find_elf = ::dwfl_linux_proc_find_elf,
                                         .find_debuginfo = find_no_symbols,
                                         .section_address = nullptr,
                                         .debuginfo_path = &no_path};
  Session dwfl(::dwfl_begin(&kCallbacks), &::dwfl_end);
  if (dwfl == nullptr) return base::internal_error("cannot begin to read stacks: {}", last_error());
  const int reported = ::dwfl_linux_proc_report(dwfl.get(), pid);
  if (reported > 0) return refused(reported);
  if (reported < 0 || ::dwfl_report_end(dwfl.get(), nullptr, nullptr) != 0) {
    return base::unavailable("cannot read what is mapped in it: {}", last_error());
  }
  return dwfl;
}

}  // namespace

std::string function_at(pid_t pid, std::uint64_t address) {
  const auto dwfl = open_session(pid);
  if (!dwfl.ok()) return {};
  Dwfl_Module* const module = ::dwfl_addrmodule(dwfl->get(), address);
  const char* const symbol = module == nullptr ? nullptr : ::dwfl_module_addrname(module, address);
  return symbol == nullptr ? std::string() : demangled(symbol);
}

base::Result<std::map<pid_t, UserStack>> read_user_stacks(pid_t pid) {
  MUSTER_ASSIGN_OR_RETURN(const Session dwfl, open_session(pid));
  const int attached = ::dwfl_linux_proc_attach(dwfl.get(), pid, false);
  if (attached > 0) return refused(attached);
  if (attached < 0) return base::unavailable("cannot attach to it: {}", last_error());
  ::dwfl_getmodules(dwfl.get(), load_module, nullptr, 0);
  std::map<pid_t, RawStack> threads;
  errno = 0;
  if (::dwfl_getthreads(dwfl.get(), add_thread, &threads) != 0 && threads.empty()) {
    if (errno == EPERM) return refused(EPERM);
    return base::unavailable("cannot read its threads: {}", last_error());
  }
  std::map<pid_t, UserStack> stacks;
  for (auto& [tid, raw] : threads) stacks.emplace(tid, named(dwfl.get(), std::move(raw)));
  return stacks;
}

}  // namespace muster::agent::stacks
