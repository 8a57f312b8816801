// skid: what goes in comes out, once and in order; it holds two; an offer stands until it is taken.
// One item, chosen by the solver, is followed by its place, as in formal_fifo.sv.
module formal_skid (
    input logic clk,
    input logic rst,
    input logic s_valid,
    input logic [WIDTH-1:0] s_item,
    input logic m_ready,
    input logic choose
);
  localparam int WIDTH = 2;
  logic s_ready, m_valid;
  logic [WIDTH-1:0] m_item;
  skid #(.WIDTH(WIDTH)) dut (.clk, .rst, .s_valid, .s_ready, .s_item, .m_valid, .m_ready, .m_item);

  logic begun = 1'b0;
  logic followed, was_offered, was_ready;
  logic [2:0] inside, ahead;
  logic [WIDTH-1:0] item, was_item;
  logic put, got;
  assign put = s_valid && s_ready;
  assign got = m_valid && m_ready;
  always_ff @(posedge clk) begin
    begun <= 1'b1;
    was_offered <= !rst && m_valid && !m_ready;
    was_ready <= rst || m_ready;
    was_item <= m_item;
    if (rst) begin
      inside <= '0;
      followed <= 1'b0;
    end else begin
      inside <= inside + {2'b0, put} - {2'b0, got};
      if (put && choose && !followed) begin
        followed <= 1'b1;
        item <= s_item;
        ahead <= inside - {2'b0, got};
      end else if (followed && got) begin
        if (ahead == '0) followed <= 1'b0;
        ahead <= ahead - 1'b1;
      end
    end
  end

  always_comb begin
    assume (begun || rst);
    if (begun && !rst) begin
      if (followed && m_valid && ahead == '0) comes_out_as_it_went_in : assert (m_item == item);
      offers_what_it_holds : assert (m_valid == (inside != '0));
      holds_no_more_than_two : assert (inside <= 3'd2);
      if (was_ready) takes_after_it_gave : assert (s_ready);
      if (was_offered) offer_stands : assert (m_valid && m_item == was_item);
    end
  end
endmodule
