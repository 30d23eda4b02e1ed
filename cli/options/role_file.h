// Reads `roles:` of a job file. A job file is a configuration file that also describes a job:
//
//   roles:
//     - name: head                       # unique in the job
//       command: [python3, head.py]      # a list of words; no shell reads them
//     - name: worker
//       np: 4                            # ranks; default: the slots of `hosts`, else 1
//       command: [python3, worker.py, --fast]
//       hosts: n2,n3:2                   # some of the job's hosts; default: any
//       env: {OMP_NUM_THREADS: 4}        # wins over the job's variables
//       wdir: /data
//       service: true                    # serves the other roles; is ended after they have ended
//   muster:
//     hosts: [n1, n2, n3]
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/role.h"

namespace muster::cli::inline options {

// Pure. Empty if the file has no roles. All other keys are skipped. Errors have the form FILE:LINE:COLUMN: what is
// wrong.
base::Result<std::vector<model::Role>> parse_roles(std::string_view content, const std::string& file_name);

base::Result<std::vector<model::Role>> read_role_file(const std::string& path);

}  // namespace muster::cli::options
