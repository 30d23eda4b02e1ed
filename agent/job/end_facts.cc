#include "agent/job/end_facts.h"

#include <sys/wait.h>

#include "base/strings.h"

namespace muster::agent::inline job {
namespace {

std::int64_t to_mib(std::uint64_t kib) {
  return static_cast<std::int64_t>((kib + 512) / 1024);
}

void set_core(const RankExited& exited, const CoreSettings& settings, v1::EndFacts& facts) {
  const int signal = WIFSIGNALED(exited.wait_status) ? WTERMSIG(exited.wait_status) : 0;
  if (!may_leave_core(signal)) return;
  const CoreFinding core = find_core({.signal = signal,
                                      .was_dumped = WCOREDUMP(exited.wait_status) != 0,
                                      .pid = exited.pid,
                                      .pid_inside = exited.pid_inside,
                                      .workdir = exited.facts.workdir,
                                      .limit = exited.facts.core_limit},
                                     settings);
  facts.set_core_file(base::valid_utf8(core.file));
  facts.set_core_note(base::valid_utf8(core.note));
}

}  // namespace

v1::EndFacts end_facts_of(const RankExited& exited, const CoreSettings& settings) {
  v1::EndFacts facts;
  if (exited.wait_status == 0 || exited.signalled_by_us || exited.facts.program.empty()) return facts;
  facts.set_peak_memory_mib(to_mib(exited.facts.peak_kib));
  if (exited.facts.free_kib) facts.set_free_memory_mib(to_mib(*exited.facts.free_kib));
  facts.set_program(base::valid_utf8(exited.facts.program));
  facts.set_kernel_line(exited.facts.kernel_line);
  set_core(exited, settings, facts);
  return facts;
}

}  // namespace muster::agent::job
