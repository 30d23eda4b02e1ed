// `roles:` of a job file, which is a configuration file with a job in it:
//
//   roles:
//     - name: head                       # of one job: each once
//       command: [python3, head.py]      # words: no shell reads them
//     - name: worker
//       np: 4                            # ranks; 1 if left out
//       command: [python3, worker.py, --fast]
//       hosts: n2,n3:2                   # of the job's; any if left out
//       env: {OMP_NUM_THREADS: 4}        # over the job's
//       wdir: /data
//       service: true                    # there for the others: has had its time when those have ended
//   muster:
//     hosts: [n1, n2, n3]
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/role.h"

namespace muster::cli::inline options {

// Pure. Empty: the file has none. What else is in it is not looked at. Errors: FILE:LINE:COLUMN: what is wrong.
base::Result<std::vector<model::Role>> parse_roles(std::string_view content, const std::string& file_name);

base::Result<std::vector<model::Role>> read_role_file(const std::string& path);

}  // namespace muster::cli::options
