// hvdrun's command line: words in, a job and how to reach its hosts out. Parses only: no file is read, no host looked
// up.
//
// Options end at the first word that is neither an option nor an option's value, or at "--"; from there everything is
// the command, byte for byte. An option given twice: the last one counts, as with horovodrun; --env adds up.
//
//   ParsedHvdrun parsed = parse_hvdrun({argv + 1, argv + argc}, environment, base::build_id());
//   if (parsed.exit_code) …print parsed.text to stdout (0) or stderr, return *parsed.exit_code
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/jobs/job_runner.h"
#include "model/job_spec.h"

namespace muster::cli {

struct HvdrunOptions {
  // placement.hosts is filled from -H. Left to the caller: hosts of `hostfile`; umask; workdir: empty without --wdir,
  // and a relative one is relative to the launcher's directory.
  model::JobSpec job;
  std::string hostfile;                   // path to be read; empty: none
  launcherd::BootstrapOptions bootstrap;  // backend, identity_file, default_port, agent_dir
  launcherd::LaunchOptions launch;        // agent_link, contain, verbose
};

struct ParsedHvdrun {
  // Set: the command line is answered by `text` alone; help and version on stdout with 0, a mistake on stderr with 2.
  std::optional<int> exit_code;
  std::string text;  // whole lines; mistakes begin with "hvdrun: "
  HvdrunOptions options;
};

// `arguments` without the program's name. Of `environment` only HOROVOD_START_TIMEOUT is read, as the default of
// --start-timeout.
ParsedHvdrun parse_hvdrun(const std::vector<std::string>& arguments, const base::Environment& environment,
                          std::string_view build_id);

// "30", "30s", "5m", "1.5h", "500ms"; without a unit seconds. Not negative, at most ten years, whole milliseconds (the
// rest is rounded up).
base::Result<std::chrono::milliseconds> parse_duration(std::string_view text);

}  // namespace muster::cli
