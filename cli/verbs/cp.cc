// The host's side of a copy is a script for its /bin/sh, which runs beside the rank (exec_session.h).
// Read run_cp() first, then upload_file(), upload_tree() and download(), then the scripts.
#include "cli/verbs/cp.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/print.h"
#include "base/strings.h"
#include "cli/verbs/copy_archive.h"
#include "cli/verbs/copy_path.h"
#include "cli/verbs/copy_receiver.h"
#include "cli/verbs/exec_session.h"
#include "cli/verbs/rank_word.h"
#include "cli/verbs/verb.h"

namespace muster::cli::inline verbs {
namespace {

constexpr std::chrono::milliseconds kProgressPeriod{200};
constexpr double kMebi = 1024.0 * 1024.0;

// $1 path, $2 "r" if folders may be sent. Sends a header (take_copy_header), then a file, or a folder as an archive.
constexpr const char* kGet = R"sh(
p=$1
if [ -d "$p" ]; then
  [ "$2" = r ] || { echo "$p is a folder: add -r" >&2; exit 1; }
  echo TREE
  unset TAR_OPTIONS
  exec tar -C "$p" -cf - .
fi
[ -e "$p" ] || { echo "$p: no such file" >&2; exit 1; }
[ -f "$p" ] || { echo "$p is no regular file" >&2; exit 1; }
[ -r "$p" ] || { echo "$p: no permission to read it" >&2; exit 1; }
n=$(stat -Lc %s -- "$p") && m=$(stat -Lc %a -- "$p") || exit 1
[ "$n" = 0 ] && { echo "FILE - $m"; exec cat -- "$p"; }  # files in /proc have the size 0, whatever they contain
echo "FILE $n $m"
exec head -c "$n" -- "$p"
)sh";

// $1 path, $2 bytes, $3 mode, $4 name for a copy into a folder.
constexpr const char* kPutFile = R"sh(
p=$1
[ -d "$p" ] && p=${p%/}/$4
[ -d "$p" ] && { echo "$p is a folder" >&2; exit 1; }
d=$(dirname -- "$p")
[ -d "$d" ] || { echo "$d: no such folder" >&2; exit 1; }
trap '' HUP INT TERM  # until the name is known; the end of the input follows
t=$(mktemp "$d/.muster-cp.XXXXXXXX") || exit 1
trap 'rm -f -- "$t"' EXIT
trap 'exit 1' HUP INT TERM
cat >"$t" || exit 1
n=$(stat -c %s -- "$t")
[ "$n" = "$2" ] || { echo "$p: $n of $2 bytes arrived" >&2; exit 1; }
chmod "$3" -- "$t" && mv -fT -- "$t" "$p" || exit 1
trap - EXIT
)sh";

// $1 path, $2 name for a copy into a folder. Prints the name of a temporary folder, a NUL, the name that it shall get,
// and a NUL. Then it unpacks an archive into the temporary folder. An archive may end early without an error, so
// kKeepTree follows only if the sender is content, and kDropTree in all other cases.
constexpr const char* kPutTree = R"sh(
p=$1
[ -d "$p" ] && p=${p%/}/$2
[ -e "$p" ] && { echo "$p exists already, and a folder is not merged into another one" >&2; exit 1; }
d=$(dirname -- "$p")
[ -d "$d" ] || { echo "$d: no such folder" >&2; exit 1; }
trap '' HUP INT TERM  # until the name is known; the end of the input follows
t=$(mktemp -d "$d/.muster-cp.XXXXXXXX") || exit 1
trap 'rm -rf -- "$t"' EXIT
trap 'exit 1' HUP INT TERM
printf '%s\0%s\0' "$t" "$p"
unset TAR_OPTIONS
tar -C "$t" --no-same-owner --no-same-permissions -xf - && cat >/dev/null || exit 1
trap - EXIT
)sh";

// $1 temporary folder, $2 the name that it shall get.
constexpr const char* kKeepTree = R"sh(mv -T -- "$1" "$2" || { rm -rf -- "$1"; exit 1; })sh";
constexpr const char* kDropTree = R"sh(rm -rf -- "$1")sh";

v1::ExecRequest script(const CopyPath& beside, const char* text, const std::vector<std::string>& words) {
  v1::ExecRequest request;
  if (beside.rank) request.set_rank(*beside.rank);
  for (const char* const word : {"/bin/sh", "-c", text, "muster-cp"}) request.add_command(word);
  for (const std::string& word : words) request.add_command(word);
  return request;
}

// Programs must not take a path for an option.
std::string plain(const std::string& path) {
  return path.starts_with('-') ? "./" + path : path;
}

// A line on the terminal that grows with the copy.
class Progress {
 public:
  explicit Progress(std::uint64_t size) : size_(size), is_shown_(::isatty(STDERR_FILENO) != 0) {}
  ~Progress() {
    if (has_line_) base::print_remark("\r\x1b[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void set(std::uint64_t bytes) {
    const auto now = base::monotonic_now();
    if (!is_shown_ || now - at_ < kProgressPeriod) return;
    at_ = now;
    has_line_ = true;
    const double done = static_cast<double>(bytes) / kMebi;
    if (size_ == 0) return base::print_remark("\r{:.1f} MiB", done);
    base::print_remark("\r{:.1f} of {:.1f} MiB", done, static_cast<double>(size_) / kMebi);
  }

 private:
  const std::uint64_t size_;
  const bool is_shown_;
  bool has_line_ = false;
  base::MonotonicTime at_ = base::monotonic_now();
};

// Returns the last line that the script has printed on stderr.
std::string last_line(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text.substr(text.rfind('\n') + 1));
}

// Returns why a script has failed. OK if it has not.
base::Status failure_of(const ExecOutcome& outcome) {
  if (outcome.given_up_by != 0) return {base::Code::kCancelled, "interrupted"};
  if (!outcome.end) return outcome.failure;
  if (!outcome.failure.ok()) return outcome.failure;
  if (outcome.end->exit_code() == 0) return base::ok_status();
  std::string why = outcome.end->message();
  if (why.empty()) why = last_line(outcome.complaints);
  if (why.empty()) why = fmt::format("the copy ended there with exit code {}", outcome.end->exit_code());
  return base::data_loss("{}: {}", outcome.host.empty() ? "the host" : outcome.host, why);
}

base::Status upload_file(const FoundJob& job, const CopyPlan& plan, const base::UniqueFd& file,
                         const struct stat& info) {
  const auto size = static_cast<std::uint64_t>(info.st_size);
  std::uint64_t sent = 0;
  Progress progress(size);
  ExecHooks hooks;
  hooks.on_output = [](std::string_view) { return base::ok_status(); };
  hooks.on_sent = [&](std::size_t bytes) {
    sent += bytes;
    progress.set(sent);
  };
  hooks.on_input_end = [&] {
    if (sent == size) return base::ok_status();
    if (size == 0) {
      return base::data_loss("{} does not know its size, as files in /proc: copy it to another file first",
                             base::printable(plan.from.path));
    }
    return base::data_loss("{} changed while it was copied", base::printable(plan.from.path));
  };
  const auto request = script(plan.to, kPutFile,
                              {plain(plan.to.path), std::to_string(size), fmt::format("{:o}", info.st_mode & 0777U),
                               base_name(plan.from.path)});
  return failure_of(run_exec(job, request, {.input = file.get()}, hooks));
}

base::Status upload_tree(const FoundJob& job, const CopyPlan& plan) {
  MUSTER_ASSIGN_OR_RETURN(CopyArchive archive, CopyArchive::pack(plan.from.path));
  std::uint64_t sent = 0;
  std::string names;
  Progress progress(0);
  std::optional<base::Status> packed;  // nullopt if the input has not ended
  ExecHooks hooks;
  hooks.on_output = [&names](std::string_view bytes) {
    names += bytes;
    return base::ok_status();
  };
  hooks.on_sent = [&](std::size_t bytes) {
    sent += bytes;
    progress.set(sent);
  };
  hooks.on_input_end = [&] {
    packed = archive.wait_blocking();
    return base::ok_status();  // the host finishes in any case: then its folder is known, and at rest
  };
  base::Status copied =
      failure_of(run_exec(job, script(plan.to, kPutTree, {plain(plan.to.path), base_name(plan.from.path)}),
                          {.input = archive.fd()}, hooks));
  const auto words = base::split(names, '\0');
  if (words.size() != 3) return copied.ok() ? base::data_loss("the host did not say where the folder is") : copied;
  const std::vector<std::string> folders(words.begin(), words.begin() + 2);
  const auto run_there = [&](const char* text) {
    ExecHooks quiet;
    quiet.on_output = [](std::string_view) { return base::ok_status(); };
    return failure_of(run_exec(job, script(plan.to, text, folders), {}, quiet));
  };
  if (packed && !packed->ok()) copied = *packed;
  if (copied.ok() && !packed) copied = base::unavailable("the copy ended early");
  if (copied.ok()) copied = run_there(kKeepTree);
  if (!copied.ok()) static_cast<void>(run_there(kDropTree));  // if the job is over, the folder stays
  return copied;
}

base::Status upload(const FoundJob& job, const CopyPlan& plan, bool is_recursive) {
  const std::string shown = base::printable(plan.from.path);
  const base::UniqueFd file(::open(plan.from.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat info {};
  if (!file.valid() || ::fstat(file.get(), &info) != 0) return base::errno_error(errno, "cannot read " + shown);
  if (S_ISREG(info.st_mode)) return upload_file(job, plan, file, info);
  if (!S_ISDIR(info.st_mode)) return base::invalid_argument("{} is no regular file", shown);
  if (!is_recursive) return base::invalid_argument("{} is a folder: add -r", shown);
  return upload_tree(job, plan);
}

base::Status download(const FoundJob& job, const CopyPlan& plan, bool is_recursive) {
  CopyReceiver receiver(plan.to.path, base_name(plan.from.path), is_recursive);
  std::optional<Progress> progress;
  ExecHooks hooks;
  hooks.on_output = [&](std::string_view bytes) {
    base::Status taken = receiver.take(bytes);
    if (!progress) progress.emplace(receiver.size());
    progress->set(receiver.bytes());
    return taken;
  };
  const auto request = script(plan.from, kGet, {plain(plan.from.path), is_recursive ? "r" : ""});
  MUSTER_RETURN_IF_ERROR(failure_of(run_exec(job, request, {}, hooks)));
  return receiver.commit();
}

}  // namespace

const CommandDoc& cp_doc() {
  static const FlagTable kTable = verb_table(
      with_launcher_rows(
          {toggle("recursive", {{"-r", "true"}, {"--recursive", "true"}}, "Copy folders with all that they contain.")
               .command_line_only()}),
      {{.completes = Completes::kFile}, {.completes = Completes::kFile}});
  static const CommandDoc kDoc = {
      .name = "muster cp",
      .summary = "copy files to or from a rank of a running job",
      .usage = "[options] JOB:RANK:PATH PATH | PATH JOB:RANK:PATH",
      .description =
          "Copies a file between this machine and the place where a rank runs: its host, or its container. A relative "
          "path there is below the rank's working directory. If the target is a folder, the copy gets its name in "
          "it.\n\n"
          "The copy grows under a temporary name, and takes its own name when it is complete. So an interrupted copy "
          "never replaces a file. Permissions are copied. With -r, a folder is copied to a name that does not exist "
          "yet.\n\n"
          "RANK may be left out in a job with one rank: JOB::PATH. Write ./a:0:b for a file here with such a name. The "
          "host needs /bin/sh, head, cat, stat, mktemp and mv; tar for folders.",
      .groups = {{FlagGroup::kGeneral, "Options"}},
      .table = &kTable,
      .notes = "",
      .examples = {{"muster cp k7:0:/tmp/core.4711 .", "a file of rank 0's host"},
                   {"muster cp fixed.py k7:3:.", "into the working directory of rank 3"},
                   {"muster cp -r k7:0:profiles profiles-of-0", "a folder"}},
      .exit_codes = {{"0", "the copy is complete"},
                     {"1", "the copy failed; what was there before is unchanged"},
                     {"2", "a mistake in the command line, no such job or rank, or the rank does not run"}},
  };
  return kDoc;
}

int run_cp(const std::string& verb, const std::vector<std::string>& arguments) {
  const VerbCall call(verb, cp_doc(), arguments);
  if (call.exit_code()) return *call.exit_code();
  if (call.words().size() != 2) {
    return call.fail("copy what, and where to? For example muster cp k7:0:/tmp/out.log .");
  }
  const auto plan = parse_copy(call.words()[0], call.words()[1]);
  if (!plan.ok()) return call.fail(plan.status());
  auto job = job_named(call, plan->remote().job);
  if (!job.ok()) return call.fail(job.status());
  job->launcher.connection = nullptr;  // gRPC's threads of that connection do not block signals
  const bool is_recursive = call.has("recursive");
  const base::Status copied =
      plan->is_upload() ? upload(*job, *plan, is_recursive) : download(*job, *plan, is_recursive);
  if (copied.ok()) return 0;
  if (is_users_mistake(copied)) return call.fail(copied);
  return call.fail(base::printable(copied.message()), kNotAnswered);
}

}  // namespace muster::cli::verbs
