// Converts a template's description of hosts to the binder's node shape, and makes up host names. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "job_templates/template.h"
#include "model/node_shape.h"

namespace muster::job_templates {

// Numbers CPUs as Linux does: the first threads of all cores, then the second ones. Includes reserved cores, because
// hvdrun's --reserve-cores leaves them out. FAILED_PRECONDITION if the template does not describe hosts.
base::Result<model::NodeShape> node_shape(const Template& job_template);

// Returns "nid00001", "nid00002", …, by the site's pattern. Returns "host1", … if the template has no pattern.
std::vector<std::string> made_up_names(const NodeDescription& node, int count);

}  // namespace muster::job_templates
