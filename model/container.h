// --container: Apptainer or Singularity on the host runs the ranks inside an image. Pure.
//
// The agent and the warden stay outside. The warden starts `apptainer exec … IMAGE COMMAND`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/node_shape.h"

namespace muster::model {

struct Container {
  std::string image;                // a path on the host, or what else its program takes; empty: no container
  std::string program{};            // name or path; empty: apptainer, else singularity
  std::vector<std::string> args{};  // of `exec`, before the image

  bool operator==(const Container&) const = default;
};

// Words as a shell would cut them: blanks part them, '…', "…" and \ keep what they enclose. Nothing is expanded.
// INVALID_ARGUMENT: a quote is not closed.
base::Result<std::vector<std::string>> split_words(std::string_view text);

// The container as it is on this host: with --nv or --rocm where it has such GPUs.
Container on_host(Container container, const NodeShape& node);

// argv of a rank that runs `command` in `workdir` of the container. `program`: absolute. `folders`: of the host, bound
// under their own names.
std::vector<std::string> container_command(const Container& container, const std::string& program,
                                           const std::vector<std::string>& folders, const std::string& workdir,
                                           const std::vector<std::string>& command);

// Sets each variable of `names` that `environment` (NAME=VALUE) has a second time, as APPTAINERENV_NAME and
// SINGULARITYENV_NAME: so it reaches the program whatever image and options (--cleanenv) say of the environment. One of
// these that is there already stays.
void add_container_variables(const std::vector<std::string>& names, std::vector<std::string>& environment);

}  // namespace muster::model
