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
  std::string image;      // a path on the host, or any image name that the program accepts; empty means no container
  std::string program{};  // name or path; empty means apptainer, or else singularity
  std::vector<std::string> args{};  // options of `exec`, before the image

  bool operator==(const Container&) const = default;
};

// Splits words as a shell does. Blanks separate them; '…', "…" and \ protect what they enclose. Nothing is expanded.
// INVALID_ARGUMENT if a quote is not closed.
base::Result<std::vector<std::string>> split_words(std::string_view text);

// Returns the container for this host: with --nv or --rocm if the host has such GPUs.
Container on_host(Container container, const NodeShape& node);

// Returns argv of a rank that runs `command` in `workdir` of the container. `program` is absolute. `folders` are
// folders of the host, which are bound under their own names.
std::vector<std::string> container_command(const Container& container, const std::string& program,
                                           const std::vector<std::string>& folders, const std::string& workdir,
                                           const std::vector<std::string>& command);

// Copies each variable of `names` in `environment` (NAME=VALUE) to APPTAINERENV_NAME and SINGULARITYENV_NAME. So the
// variable reaches the program even if the image or an option (--cleanenv) drops the environment. A copy that exists
// already stays unchanged.
void add_container_variables(const std::vector<std::string>& names, std::vector<std::string>& environment);

}  // namespace muster::model
