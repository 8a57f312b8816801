// The slot of a pipeline: one of several functions runs, chosen at run time. After `load` the slot
// is empty for LOAD_CYCLES (the time a bitstream takes), then the function runs with no keys. Here
// all functions of the mask FUNCTIONS are built and one is connected; partial reconfiguration
// itself is not modelled. Functions: card/functions.toml; docs/lab/card.md, "Slot".
module slot #(
    parameter int FUNCTIONS = 2,
    parameter int LOAD_CYCLES = 64 // 1 at least
) (
    input  logic         clk,
    input  logic         rst,
    input  logic         load,
    input  logic [3:0]   load_id,
    output logic         load_known, // load_id is 0 or built
    output logic         loading,
    output logic [3:0]   active,
    input  logic         cmd_valid,
    output logic         cmd_ready,
    input  logic         cmd_dec,
    input  logic         cmd_null,
    input  logic         cmd_rekey,
    input  logic [255:0] cmd_key,
    input  logic [1:0]   cmd_key_len,
    input  logic [511:0] cmd_auth_key,
    input  logic [31:0]  cmd_salt,
    input  logic [127:0] cmd_iv,
    input  logic [63:0]  cmd_esp,
    input  logic         cmd_esn,
    input  logic [31:0]  cmd_seq_hi,
    input  logic         in_valid,
    output logic         in_ready,
    input  logic [127:0] in_block,
    input  logic [4:0]   in_bytes,
    input  logic         in_last,
    output logic         out_valid,
    input  logic         out_ready,
    output logic [127:0] out_block,
    output logic [4:0]   out_bytes,
    output logic         out_last,
    output logic         icv_valid,
    input  logic         icv_ready,
    output logic [255:0] icv
);
  logic [15:0] left;
  logic [15:0] running; // by id: the function that is loaded; a register, for all that it says passes it
  assign load_known = load_id == '0 || FUNCTIONS[{1'b0, load_id}];

  always_ff @(posedge clk) begin
    if (rst) begin
      active <= '0;
      left <= '0;
      loading <= 1'b0;
      running <= '0;
    end else if (load && load_known) begin
      active <= load_id;
      left <= 16'(LOAD_CYCLES);
      loading <= 1'b1;
      running <= '0;
    end else if (loading) begin
      left <= left - 1'b1;
      loading <= left != 16'd1;
      running[active] <= left == 16'd1;
    end
  end

  // The highest id that is built; 1 if there is none, for the arrays need an element.
  localparam int LAST = FUNCTIONS < 2 ? 1 : $clog2(FUNCTIONS + 1) - 1;
  logic [LAST:1] f_cmd_ready, f_in_ready, f_out_valid, f_out_last, f_icv_valid;
  logic [127:0]  f_out_block[1:LAST];
  logic [4:0]    f_out_bytes[1:LAST];
  logic [255:0]  f_icv[1:LAST];

  for (genvar id = 1; id <= LAST; id++) begin : g_fn
    logic mine;
    assign mine = running[id];
    slot_function #(.ID(FUNCTIONS[id] ? id : 0)) u_function (
        .clk, .rst(!mine), .cmd_valid(cmd_valid && mine), .cmd_ready(f_cmd_ready[id]), .cmd_dec, .cmd_null, .cmd_rekey,
        .cmd_key, .cmd_key_len, .cmd_auth_key, .cmd_salt, .cmd_iv, .cmd_esp, .cmd_esn, .cmd_seq_hi, .in_valid(in_valid && mine),
        .in_ready(f_in_ready[id]), .in_block, .in_bytes, .in_last, .out_valid(f_out_valid[id]), .out_ready(out_ready && mine),
        .out_block(f_out_block[id]), .out_bytes(f_out_bytes[id]), .out_last(f_out_last[id]), .icv_valid(f_icv_valid[id]),
        .icv_ready(icv_ready && mine), .icv(f_icv[id]));
  end

  // Two blocks, for a simulator that sees a path from each input of a block to each output would
  // see a loop in one.
  always_comb begin
    cmd_ready = 1'b0;
    in_ready = 1'b0;
    for (int id = 1; id <= LAST; id++) begin
      if (running[id]) begin
        cmd_ready = f_cmd_ready[id];
        in_ready = f_in_ready[id];
      end
    end
  end
  always_comb begin
    out_valid = 1'b0;
    out_last = 1'b0;
    icv_valid = 1'b0;
    out_block = '0;
    out_bytes = '0;
    icv = '0;
    for (int id = 1; id <= LAST; id++) begin
      if (running[id]) begin
        out_valid = f_out_valid[id];
        out_last = f_out_last[id];
        icv_valid = f_icv_valid[id];
        out_block = f_out_block[id];
        out_bytes = f_out_bytes[id];
        icv = f_icv[id];
      end
    end
  end
endmodule
