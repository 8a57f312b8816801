// The packet switch of x0: ports 0 host, 1 X1, 2 X2, 3 MAC, each with an input and an output. An
// input says with each word where its frame goes; each output serves the inputs by turns, a frame
// at a time, and none waits for another output. A register behind each output keeps the paths
// short. Signals of the ports lie side by side, port 0 lowest.
module switch #(
    parameter int PORTS = 4 // the width of s_dest fits no other number
) (
    input  logic                clk,
    input  logic                rst,
    input  logic [PORTS-1:0]    s_valid,
    output logic [PORTS-1:0]    s_ready,
    input  logic [PORTS*64-1:0] s_data,
    input  logic [PORTS-1:0]    s_sof,
    input  logic [PORTS-1:0]    s_eof,
    input  logic [PORTS*4-1:0]  s_bytes,
    input  logic [PORTS-1:0]    s_err,
    input  logic [PORTS*2-1:0]  s_dest, // holds for the whole frame
    output logic [PORTS-1:0]    m_valid,
    input  logic [PORTS-1:0]    m_ready,
    output logic [PORTS*64-1:0] m_data,
    output logic [PORTS-1:0]    m_sof,
    output logic [PORTS-1:0]    m_eof,
    output logic [PORTS*4-1:0]  m_bytes,
    output logic [PORTS-1:0]    m_err,
    output logic [PORTS*2-1:0]  m_src
);
  logic [PORTS*71-1:0]    words;
  logic [PORTS*PORTS-1:0] takes; // output by output, which inputs it takes a word of

  for (genvar i = 0; i < PORTS; i++) begin : g_in
    assign words[71*i +: 71] = {s_err[i], s_bytes[4*i +: 4], s_eof[i], s_sof[i], s_data[64*i +: 64]};
    logic [PORTS-1:0] taken;
    for (genvar o = 0; o < PORTS; o++) begin : g_taken
      assign taken[o] = takes[PORTS*o + i];
    end
    assign s_ready[i] = |taken;
  end

  for (genvar o = 0; o < PORTS; o++) begin : g_out
    logic [PORTS-1:0] wants;
    logic             o_valid, o_ready;
    logic [70:0]      o_word;
    logic [1:0]       o_src;
    for (genvar i = 0; i < PORTS; i++) begin : g_wants
      assign wants[i] = s_valid[i] && s_dest[2*i +: 2] == 2'(o);
    end
    switch_output #(.INPUTS(PORTS)) u_output (
        .clk, .rst, .s_valid(wants), .s_ready(takes[PORTS*o +: PORTS]), .s_word(words), .m_valid(o_valid), .m_ready(o_ready),
        .m_word(o_word), .m_src(o_src));
    skid #(.WIDTH(73)) u_skid (
        .clk, .rst, .s_valid(o_valid), .s_ready(o_ready), .s_item({o_src, o_word}), .m_valid(m_valid[o]), .m_ready(m_ready[o]),
        .m_item({m_src[2*o +: 2], m_err[o], m_bytes[4*o +: 4], m_eof[o], m_sof[o], m_data[64*o +: 64]}));
  end
endmodule
